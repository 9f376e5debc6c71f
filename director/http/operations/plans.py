"""The plan in use, and those before it."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, get
from litestar.datastructures import State

from director.core.table import RoutingTable
from director.http.decision.endpoint import NOT_READY
from director.http.guards import needs, no_query
from director.http.problem import ProblemRaised
from director.http.reading.fields import whole
from director.http.replies import AnyRequest, json_reply, read_query, time_text
from director.http.state import HttpState, shared
from director.store import plans
from director.store.plans import StoredPlan

LISTED_MAX = 1_000
LISTED_DEFAULT = 100


@get("/plan", guards=[needs("read"), no_query])
async def current_plan(state: State) -> Response[bytes]:
    """The plan that this replica decides by."""
    http = shared(state)
    table = table_in_use(http)
    return json_reply(msgspec.to_builtins(table.plan) | plan_summary(http, table))


@get("/plans", guards=[needs("read")])
async def past_plans(request: AnyRequest, state: State) -> Response[bytes]:
    """Plans after the epoch `since`, oldest first."""
    query = read_query(request, {"since": whole(), "limit": whole(at_least=1)}, numeric=("since", "limit"))
    limit = min(query.get("limit", LISTED_DEFAULT), LISTED_MAX)
    found = await plans.plans_since(shared(state).database(), query.get("since", 0), limit)
    return json_reply([_stored(one) for one in found])


def _stored(stored: StoredPlan) -> dict[str, Any]:
    plan: dict[str, Any] = msgspec.to_builtins(stored.plan)
    return plan | {"at": time_text(stored.at_ms), "content_hash": stored.content_hash}


def table_in_use(http: HttpState) -> RoutingTable:
    """Raises the 503 problem of a replica that has no plan."""
    if http.view.table is None:
        raise ProblemRaised(NOT_READY)
    return http.view.table


def plan_summary(http: HttpState, table: RoutingTable) -> dict[str, Any]:
    """What every answer says of its plan."""
    return {
        "epoch": table.plan.epoch,
        "age_ms": http.view.plan_age_ms(),
        "static": http.view.static,
        "policy": http.view.policy_version,
    }
