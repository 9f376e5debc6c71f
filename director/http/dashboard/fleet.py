"""`GET /`: the fleet. One row per region, opened into its deployments; the flow picture and the world map.

What is looked at is in the address: `open` regions, the filter, the order. The page asks for its figures anew with the
very same address, so a reload, a restart of the director and a link in a chat all show the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Response, get
from litestar.datastructures import State
from msgspec import Struct

from director.http.dashboard import flow, world
from director.http.dashboard.regions import TROUBLE, RegionRow, region_rows
from director.http.dashboard.rendering import is_htmx, land_path, page, query
from director.http.dashboard.session import current, signed_in
from director.http.dashboard.state import dashboard
from director.http.dashboard.trend import Trend
from director.http.reading.fields import one_of, text
from director.http.replies import AnyRequest, read_query
from director.http.state import shared

ORDERS = ("policy", "trouble", "name", "utilisation", "share")
FIELDS = {"open": text(4_096), "find": text(128), "order": one_of(*ORDERS)}
OPEN_MAX = 20
REFRESH_S, REFRESH_LARGE_S = 2, 5
LARGE = 50
"""Regions from which on the page asks less often."""


class Choice(Struct, frozen=True):
    """What is looked at."""

    open: tuple[str, ...] = ()
    find: str = ""
    order: str = "policy"

    def address(self, **changes: Any) -> str:
        told = {"find": self.find, "order": "" if self.order == "policy" else self.order, "open": self.open} | changes
        text = query(**told)
        return f"/?{text}" if text else "/"

    def toggled(self, region: str) -> str:
        rest = tuple(one for one in self.open if one != region)
        return self.address(open=rest if region in self.open else (*rest, region)[-OPEN_MAX:])


@get("/", guards=[signed_in("read")])
async def fleet(request: AnyRequest, state: State) -> Response[bytes]:
    """The page, or the part of it that is live."""
    told = read_query(request, FIELDS)
    opened = tuple(dict.fromkeys(filter(None, told.get("open", "").split(","))))[:OPEN_MAX]
    choice = Choice(opened, told.get("find", ""), told.get("order", "policy"))
    http, own = shared(state), dashboard(state)
    table = http.view.table
    rows: list[RegionRow] = []
    lines: dict[Any, Trend] = {}
    flows = flow.Flows((), {})
    known = True
    if table is not None:
        figures = await own.live.figures()
        known = figures.known
        flows = await own.flows(table, figures)
        now_ms = http.view.now_ms()
        rows = await asyncio.to_thread(region_rows, table.plan, table.policy, figures, flows.taken(), now_ms)
        lines = await own.trends.of(http, [row.region for row in rows if row.region in choice.open])
    shown = _sorted([row for row in rows if _fits(row, choice.find)], choice.order)
    template = "fleet_part.html" if is_htmx(request) else "fleet.html"
    # In a thread: two hundred rows take a while to write, and decisions must not wait for them.
    return await asyncio.to_thread(
        page,
        request,
        template,
        current(request),
        tab="fleet",
        title="Fleet",
        choice=choice,
        orders=ORDERS,
        rows=shown,
        total=len(rows),
        summary=_summary(rows, flows),
        trends=lines,
        known=known,
        flow=flow.picture(flows),
        markers=world.markers(rows),
        unplaced=[row.region for row in rows if row.policy.location is None],
        land=land_path(),
        graticule=world.graticule(),
        refresh_s=REFRESH_S if len(rows) < LARGE else REFRESH_LARGE_S,
    )


def _fits(row: RegionRow, find: str) -> bool:
    """Every word stands in the region's name, its state, its jurisdictions or one of its models."""
    words = find.lower().split()
    if not words:
        return True
    models = " ".join(f"{one.plan.model} {one.plan.version}" for one in row.deployments)
    everything = f"{row.region} {row.state} {' '.join(row.policy.jurisdictions)} {models}".lower()
    return all(word in everything for word in words)


def _sorted(rows: list[RegionRow], order: str) -> list[RegionRow]:
    if order == "name":
        return sorted(rows, key=lambda row: row.region)
    if order == "trouble":
        return sorted(rows, key=lambda row: (-TROUBLE[row.state], -(row.demand_ratio or 0.0)))
    if order == "utilisation":
        return sorted(rows, key=lambda row: -(row.utilisation or 0.0))
    if order == "share":
        return sorted(rows, key=lambda row: -(row.share or 0.0))
    return rows


def _summary(rows: list[RegionRow], flows: flow.Flows) -> dict[str, Any]:
    """The fleet in one line."""
    home = sum(one.home for one in flows.flows)
    guests = sum(one.guests for one in flows.flows)
    refused = sum(flows.refused.values())
    asked = home + guests + refused
    capacity = sum(row.capacity for row in rows)
    demand = sum(row.demand for row in rows)
    return {
        "regions": len(rows),
        "troubled": sum(TROUBLE[row.state] >= TROUBLE["half_open"] for row in rows),
        "capacity": capacity,
        "demand": demand,
        "demand_ratio": demand / capacity if capacity > 0 else None,
        "overflow_share": guests / asked if asked > 0 else None,
        "refused_share": refused / asked if asked > 0 else None,
        "decided": home + guests if asked > 0 else None,
    }
