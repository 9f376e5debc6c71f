"""`POST /explain`: why a request goes where it goes, at this moment or at a past one. Never changes state."""

from __future__ import annotations

import asyncio

import msgspec
from litestar import Response, post
from litestar.datastructures import State

from director.core.explain import Explanation, explain
from director.core.state import PlannerState
from director.core.table import RoutingTable
from director.core.zones import ZoneIndex
from director.http.decision.endpoint import request_of
from director.http.decision.question import BODY_BYTES_MAX, Question, past_question_from_body
from director.http.guards import needs, no_query
from director.http.operations.plans import table_in_use
from director.http.problem import FieldProblem, Problem, ProblemRaised, malformed
from director.http.reading.fields import FieldRefused, timestamp_ms
from director.http.reading.pieces import decode_state
from director.http.replies import AnyRequest, json_reply
from director.http.state import HttpState, shared
from director.store import plans, policies
from director.store.database import DatabaseUnavailable


@post("/explain", guards=[needs("read"), no_query], status_code=200, request_max_body_size=BODY_BYTES_MAX)
async def explain_request(request: AnyRequest, state: State) -> Response[bytes]:
    """The fields of `/select-region`, and `at`."""
    try:
        question, at = past_question_from_body(await request.body())
        return json_reply(await explain_question(shared(state), question, at))
    except FieldRefused as refused:
        raise ProblemRaised(malformed(*refused.problems)) from None


async def explain_question(http: HttpState, question: Question, at: str | None) -> Explanation:
    """Explain a question at this moment, or at an RFC 3339 time. Raises FieldRefused, or a problem."""
    table = table_in_use(http)
    zones, now_ms = http.view.zones, http.view.now_ms()
    if at is not None:
        now_ms = timestamp_ms(at) or 0
        table = await table_at(http, table, now_ms)
        zones = ZoneIndex(table.policy)
    asked = request_of(question, table.policy, zones, http.decision.next_id().decode())
    return explain(table, asked, now_ms, None if at is not None else await planner_state(http))


async def table_at(http: HttpState, running: RoutingTable, at_ms: int) -> RoutingTable:
    """The plan of a past moment, with the policy that it names. Raises a 404 problem where none is kept."""
    database = http.database()
    stored = await plans.plan_at(database, at_ms)
    if stored is None:
        problem = FieldProblem("at", "a time for which a plan is kept", "one before the first")
        raise ProblemRaised(Problem(404, "not_found", str(problem), errors=(problem,)))
    policy = await policies.get(database, stored.plan.policy)
    if policy is None:
        detail = f"version {stored.plan.policy} of the policy is no longer kept"
        raise ProblemRaised(Problem(404, "not_found", detail))
    return RoutingTable(stored.plan, policy.policy, running.keyring)


async def planner_state(http: HttpState) -> PlannerState | None:
    """The planner's own figures, which show what its deadbands hold back; None where they cannot be read."""
    if http.view.database is None or http.view.degraded:
        return None
    try:
        stored = await plans.load_state(http.view.database)
    except DatabaseUnavailable:
        return None
    try:
        return None if stored is None else await asyncio.to_thread(decode_state, stored.state_json)
    except msgspec.MsgspecError:
        # Written by another release: the explanation does without.
        return None
