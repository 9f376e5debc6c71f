"""`GET /regions`: each region as the plan has it, beside what the policy says of it."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, get
from litestar.datastructures import State

from director.core.plan import DeploymentPlan, RegionPlan
from director.core.table import RoutingTable
from director.http.guards import needs, no_query
from director.http.operations.plans import plan_summary, table_in_use
from director.http.replies import json_reply, time_text
from director.http.state import HttpState, shared
from director.store import reports
from director.store.database import DatabaseUnavailable


@get("/regions", guards=[needs("read"), no_query])
async def list_regions(state: State) -> Response[bytes]:
    """Every region of the policy, with its deployments."""
    http = shared(state)
    table = table_in_use(http)
    return json_reply({"plan": plan_summary(http, table), "regions": await region_rows(http, table)})


async def region_rows(http: HttpState, table: RoutingTable) -> list[dict[str, Any]]:
    """One object per region, in the policy's order. Report ages are null while the database is away."""
    seen_at_ms = await _seen_at_ms(http)
    now_ms = http.view.now_ms()
    observed = {one.region: one for one in table.plan.regions}
    served: dict[str, list[DeploymentPlan]] = {}
    for deployment in table.plan.deployments:
        served.setdefault(deployment.region, []).append(deployment)
    rows = []
    for name in table.policy.regions:
        seen = observed.get(name) or RegionPlan(region=name, freshness="unseen")
        row = _region(table, seen, served.get(name, []))
        at_ms = seen_at_ms.get(name)
        row["report_age_ms"] = None if at_ms is None else max(0, now_ms - at_ms)
        row["reported_at"] = None if at_ms is None else time_text(at_ms)
        rows.append(row)
    return rows


def _region(table: RoutingTable, seen: RegionPlan, deployments: list[DeploymentPlan]) -> dict[str, Any]:
    policy = table.policy.regions[seen.region]
    capacity = sum(one.capacity_tokens_per_s for one in deployments)
    demand = sum(one.offered_tokens_per_s + one.pinned_tokens_per_s for one in deployments)
    operator = None if seen.operator is None else msgspec.to_builtins(seen.operator)
    if operator is not None:
        deadline_ms = operator.pop("deadline_ms")
        operator["deadline"] = None if deadline_ms is None else time_text(deadline_ms)
    return {
        "region": seen.region,
        "endpoint": policy.endpoint,
        "jurisdictions": policy.jurisdictions,
        "location": policy.location,
        "price_per_mtok": policy.price_per_mtok,
        "freshness": seen.freshness,
        "health": seen.health,
        "gateway": seen.gateway,
        "operator": operator,
        "share_cap": seen.share_cap,
        "capacity_tokens_per_s": capacity,
        "demand_tokens_per_s": demand,
        "demand_ratio": demand / capacity if capacity > 0 else None,
        "deployments": [_deployment(one) for one in deployments],
    }


def _deployment(one: DeploymentPlan) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(one)
    for name in ("breaker_until_ms", "retry_after_ms"):
        at_ms = row.pop(name)
        row[name.removesuffix("_ms")] = None if at_ms is None else time_text(at_ms)
    return row


async def _seen_at_ms(http: HttpState) -> dict[str, int]:
    database = http.view.database
    if database is None or http.view.degraded:
        return {}
    try:
        return {one.region: one.last_seen_at_ms for one in await reports.regions_seen(database)}
    except DatabaseUnavailable:
        return {}
