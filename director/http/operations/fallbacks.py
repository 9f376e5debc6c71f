"""`GET /fallbacks`: what an L7 keeps for the day the director is silent."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Response, get
from litestar.datastructures import State

from director.core.decide import targets_in_order
from director.core.policy import DEFAULT_ZONE
from director.core.request import RouteKey
from director.core.table import RoutingTable
from director.http.guards import needs, who
from director.http.operations.plans import table_in_use
from director.http.problem import FieldProblem, ProblemRaised, malformed
from director.http.reading.fields import near_miss, text
from director.http.replies import AnyRequest, json_reply, read_query
from director.http.state import shared

Orders = dict[str, dict[str, list[dict[str, str]]]]
"""tenant → model → permitted regions, nearest first."""


@get("/fallbacks", guards=[needs("decide")])
async def fallbacks(request: AnyRequest, state: State) -> Response[bytes]:
    """For every tenant that the token may decide for, and every model: the permitted regions in order.

    `client_zone` says where the L7's clients are; without it the order is that of the zone `default`.
    """
    table = table_in_use(shared(state))
    policy_version = shared(state).view.policy_version
    zone: str = read_query(request, {"client_zone": text(256)}).get("client_zone", DEFAULT_ZONE)
    if zone != DEFAULT_ZONE and zone not in table.policy.client_zones:
        suggestion = near_miss(zone, table.policy.client_zones)
        problem = FieldProblem("client_zone", "a client zone of the policy", repr(zone), suggestion)
        raise ProblemRaised(malformed(problem))
    grant = who(request)
    tenants = [name for name in table.policy.tenants if grant.allows(f"decide:{name}")]
    orders = await asyncio.to_thread(orders_of, table, zone, tenants)
    answer = {"policy": policy_version, "epoch": table.plan.epoch, "client_zone": zone, "tenants": orders}
    return json_reply(answer)


def orders_of(table: RoutingTable, zone: str, tenants: list[str]) -> Orders:
    """Compiles in a table of its own, so that asking for everything does not push routes in use out of theirs."""
    apart = RoutingTable(table.plan, table.policy, table.keyring)
    by_class: dict[str, dict[str, list[dict[str, str]]]] = {}
    for tenant in tenants:
        canonical = table.tenant_class[tenant]
        if canonical not in by_class:
            by_class[canonical] = {model: _order(apart, canonical, model, zone) for model in sorted(table.models)}
    return {tenant: by_class[table.tenant_class[tenant]] for tenant in tenants}


def _order(table: RoutingTable, tenant: str, model: str, zone: str) -> list[dict[str, Any]]:
    key = RouteKey(tenant, (), model, table.policy.models[model].version, None, zone)
    return [{"region": one.region, "endpoint": one.endpoint} for one in targets_in_order(table.route(key))]
