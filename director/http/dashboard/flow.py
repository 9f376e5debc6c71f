"""Where traffic flows: client zones → regions, home and overflow told apart, as a picture whose widths are shares.

What was decided is measured; which part of it was overflow is asked of the very routes that decided. They are compiled
in a table of the dashboard's own, in a thread, so that looking never delays an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from director.core.request import RouteKey
from director.core.route import CompiledRoute
from director.core.table import RoutingTable
from director.http.dashboard.live import RouteRate
from director.http.dashboard.regions import Taken

ENDS_MAX = 10
"""Bands that one can still tell apart; the rest are drawn as one."""
REST = "others"
HEIGHT = 300.0
GAP = 10.0
BAR = 10.0
LEFT, RIGHT = 160.0, 545.0
WIDTH = 760.0
THIN = 0.75
"""The least width of a band, in units of the picture: thinner is not seen."""
LABEL_GAP = 17.0


class Flow(Struct, frozen=True):
    """Tokens/s from a client zone into a region."""

    zone: str
    region: str
    home: float
    guests: float


class Flows(Struct, frozen=True):
    flows: tuple[Flow, ...]
    refused: dict[str, float]
    """client zone → tokens/s that no region was left for."""

    def taken(self) -> dict[str, Taken]:
        out: dict[str, Taken] = {}
        for one in self.flows:
            into = out.setdefault(one.region, Taken())
            into.home += one.home
            into.guests += one.guests
        return out


class FlowReader:
    """Keeps a routing table of its own from one look to the next: a new plan recompiles only what it changes."""

    def __init__(self) -> None:
        self._table: RoutingTable | None = None

    def read(self, running: RoutingTable, rates: Mapping[RouteKey, RouteRate]) -> Flows:
        """For a thread. One reader reads at a time."""
        table = self._table
        if table is None or table.plan is not running.plan or table.policy is not running.policy:
            table = self._table = RoutingTable(running.plan, running.policy, running.keyring, previous=table)
        return flows_of(table, rates)


def flows_of(table: RoutingTable, rates: Mapping[RouteKey, RouteRate]) -> Flows:
    """Sum what was decided by zone and region. A region that a route's plan gives no home share hosts guests."""
    sums: dict[tuple[str, str], list[float]] = {}
    refused: dict[str, float] = {}
    for key, rate in rates.items():
        known = key.tenant in table.tenant_class and key.model in table.models
        parts = home_parts(table.route(key)) if known and table.tenant_class[key.tenant] == key.tenant else {}
        for region, tokens in rate.decided.items():
            home = tokens * parts.get(region, 0.0 if parts else 1.0)
            into = sums.setdefault((key.client_zone, region), [0.0, 0.0])
            into[0] += home
            into[1] += tokens - home
        if rate.refused > 0:
            refused[key.client_zone] = refused.get(key.client_zone, 0.0) + rate.refused
    flows = tuple(Flow(zone, region, *parts) for (zone, region), parts in sorted(sums.items()))
    return Flows(flows, refused)


def home_parts(route: CompiledRoute) -> dict[str, float]:
    """region → which part of what it takes of this route is home. Pinned sessions of a home that admits 0 are home."""
    lane = route.lane
    home: dict[str, float] = {}
    total: dict[str, float] = {}
    for position in range(len(route.reach.order)):
        region = route.deployment(position).region
        home[region] = home.get(region, 0.0) + lane.home.get(position, 0.0)
        total[region] = total.get(region, 0.0) + lane.total(position)
        if lane.total(position) == 0 and lane.home_share.get(position, 0.0) > 0:
            home[region] += 1e-12
            total[region] += 1e-12
    return {region: home[region] / total[region] if total[region] > 0 else 0.0 for region in total}


# The picture.


class End(Struct, frozen=True):
    """A zone or a region as a bar with its label."""

    name: str
    share: float
    x: float
    y: float
    height: float
    label_y: float
    refused: bool = False


class Band(Struct, frozen=True):
    path: str
    width: float
    kind: str
    title: str


class Picture(Struct, frozen=True):
    zones: tuple[End, ...]
    regions: tuple[End, ...]
    bands: tuple[Band, ...]
    height: float
    bar: float = BAR
    width: float = WIDTH


def picture(flows: Flows) -> Picture | None:
    """The flows laid out; None where nothing flows."""
    parts = _parts(flows)
    total = sum(parts.values())
    if total <= 0:
        return None
    zones = _order((zone, value) for (zone, _, _), value in parts.items())
    regions = _order((region, value) for (_, region, _), value in parts.items())
    scale = HEIGHT / total
    left = _stack(zones, LEFT - BAR, scale, total)
    right = _stack(regions, RIGHT, scale, total)
    at_left = {one.name: one.y for one in left}
    at_right = {one.name: one.y for one in right}
    rank_zone, rank_region = {n: i for i, n in enumerate(zones)}, {n: i for i, n in enumerate(regions)}
    # Leaving in the order of arrival and arriving in the order of leaving crosses least.
    leaving: dict[tuple[str, str, str], float] = {}
    for key in sorted(parts, key=lambda k: (rank_region[k[1]], k[2])):
        width = parts[key] * scale
        leaving[key] = at_left[key[0]] + width / 2
        at_left[key[0]] += width
    bands = []
    for key in sorted(parts, key=lambda k: (rank_zone[k[0]], k[2])):
        zone, region, kind = key
        width = parts[key] * scale
        y, middle = at_right[region] + width / 2, (LEFT + RIGHT) / 2
        at_right[region] += width
        path = f"M{LEFT:g} {leaving[key]:.1f}C{middle:g} {leaving[key]:.1f} {middle:g} {y:.1f} {RIGHT:g} {y:.1f}"
        title = f"{zone} → {region}: {100 * parts[key] / total:.1f} % of traffic, {kind}"
        bands.append(Band(path, max(THIN, width), kind, title))
    height = max(max(one.y + one.height, one.label_y) for one in (*left, *right)) + 6
    return Picture(left, right, tuple(bands), round(height, 1))


def _parts(flows: Flows) -> dict[tuple[str, str, str], float]:
    """(zone, region, kind) → tokens/s, with small ends put together."""
    raw: dict[tuple[str, str, str], float] = {}
    for one in flows.flows:
        raw[one.zone, one.region, "home"] = one.home
        raw[one.zone, one.region, "overflow"] = one.guests
    for zone, tokens in flows.refused.items():
        raw[zone, "refused", "refused"] = tokens
    zones = _order(((zone, value) for (zone, _, _), value in raw.items()))
    regions = _order(((region, value) for (_, region, _), value in raw.items()))
    kept_zones, kept_regions = _kept(zones), {*_kept(regions), "refused"}
    out: dict[tuple[str, str, str], float] = {}
    for (zone, region, kind), value in raw.items():
        if value > 0:
            key = (zone if zone in kept_zones else REST, region if region in kept_regions else REST, kind)
            out[key] = out.get(key, 0.0) + value
    return out


def _kept(names: dict[str, float]) -> set[str]:
    return set(names) if len(names) <= ENDS_MAX + 1 else set(list(names)[:ENDS_MAX])


def _order(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Names with their sums, greatest first; what stands for the rest, and what was refused, last."""
    sums: dict[str, float] = {}
    for name, value in pairs:
        sums[name] = sums.get(name, 0.0) + value
    return dict(sorted(sums.items(), key=lambda item: (item[0] == "refused", item[0] == REST, -item[1], item[0])))


def _stack(sums: dict[str, float], x: float, scale: float, total: float) -> tuple[End, ...]:
    """Bars one below the other; labels at their middles, moved down where they would overlap."""
    y, label_floor, ends = 4.0, 0.0, []
    for name, value in sums.items():
        height = value * scale
        label_y = max(y + height / 2 + 4, label_floor + LABEL_GAP)
        label_floor = label_y
        ends.append(End(name, value / total, x, y, max(THIN, height), label_y, refused=name == "refused"))
        y += height + GAP
    return tuple(ends)
