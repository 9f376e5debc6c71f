"""What a change would bring about, by running the planner itself: its own state, its own step, up to a minute ahead.

The planner's state is taken from the database and stepped twice over the same span, with the demand of its last
second going on and no region growing older: once with everything as it is, once with the change. What differs between
the two last plans is the change's alone. So a drain shows whom it overloads, and an end of a drain shows where the
share comes back to, at the pace at which it does. Nothing is written.

Where there is no state to run from (the first second of a fleet, or another release's), the plan in use is compared
with itself under the change: what happens at once, before the planner's admissions follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import structs

from director.core.base import region_plans
from director.core.filling import UNKNOWN
from director.core.flows import Memo
from director.core.observations import Observations, OperatorSetting
from director.core.plan import Plan
from director.core.policy import Policy
from director.core.request import RouteKey
from director.core.state import PlannerState, RegionMemory
from director.core.step import step
from director.core.table import RoutingTable
from director.http.operations.explain import planner_state
from director.http.policies.moves import Moves, compare
from director.http.state import HttpState
from director.store import demand, operators
from director.store.database import DatabaseUnavailable

STRIDE_S = 10
"""The longest step that the planner takes as one."""
STRIDES_MAX = 6
DEPLOYMENTS_STRIDES = 12_000
"""Deployments × strides: about two seconds of work. The largest fleets are run ten seconds ahead."""

Act = Literal["drain", "undrain", "down", "up", "cap", "uncap"]
SETS: dict[Act, Literal["drain", "down", "cap"]] = {"drain": "drain", "down": "down", "cap": "cap"}
ENDS: dict[Act, Literal["drain", "down", "cap"]] = {"undrain": "drain", "up": "down", "uncap": "cap"}


async def moves_of_policy(http: HttpState, policy: Policy) -> Moves | None:
    """What a policy would move; None while there is no plan to compare with."""
    return await _moves(http, policy, None)


async def moves_of_act(http: HttpState, region: str, act: Act, share: float | None = None) -> Moves | None:
    """What an operator's act on a region would move; None while there is no plan. Raises DatabaseUnavailable."""
    running = await operators.list_settings(http.database())
    kind = SETS.get(act) or ENDS[act]
    after = [one for one in running if (one.region, one.kind) != (region, kind)]
    if act in SETS:
        after.append(OperatorSetting(region, kind, "preview", "preview", http.view.now_ms(), share=share))
    return await _moves(http, None, after)


async def route_tokens(http: HttpState) -> dict[RouteKey, float]:
    """Tokens asked of each route in the last seconds; empty while the database is away."""
    tokens: dict[RouteKey, float] = {}
    if http.view.database is None or http.view.degraded:
        return tokens
    samples, _ = await demand.since(http.view.database, None)
    for sample in samples:
        for route in sample.routes:
            key = RouteKey(*route.route)
            pinned = sum(one.tokens for one in route.pinned)
            tokens[key] = tokens.get(key, 0.0) + route.new_tokens + pinned
    return tokens


async def _moves(http: HttpState, policy: Policy | None, after: Sequence[OperatorSetting] | None) -> Moves | None:
    table = http.view.table
    if table is None:
        return None
    tokens = await route_tokens(http)
    state = await planner_state(http)
    settings: Sequence[OperatorSetting] = ()
    if http.view.database is not None and not http.view.degraded:
        try:
            settings = await operators.list_settings(http.view.database)
        except DatabaseUnavailable:
            state = None
    return await asyncio.to_thread(_compared, table, state, settings, policy or table.policy, after, tokens)


def _compared(
    table: RoutingTable,
    state: PlannerState | None,
    settings: Sequence[OperatorSetting],
    policy: Policy,
    after: Sequence[OperatorSetting] | None,
    tokens: Mapping[RouteKey, float],
) -> Moves:
    if state is None or state.plan is None:
        ahead_s = 0
        before_plan = table.plan
        after_plan = table.plan if after is None else marked(table.plan, after)
    else:
        ahead_s = STRIDE_S * max(1, min(STRIDES_MAX, DEPLOYMENTS_STRIDES // max(1, len(state.deployments))))
        before_plan = foreseen(state, table.policy, settings, ahead_s)
        after_plan = foreseen(state, policy, settings if after is None else after, ahead_s)
    old = RoutingTable(before_plan, table.policy, table.keyring)
    moves = compare(old, RoutingTable(after_plan, policy, table.keyring), tokens)
    return structs.replace(moves, ahead_s=ahead_s)


def foreseen(state: PlannerState, policy: Policy, settings: Sequence[OperatorSetting], ahead_s: int) -> Plan:
    """The plan `ahead_s` after the state's own moment, if demand stays and no report comes. Pure."""
    assert state.plan is not None
    version = state.plan.policy
    samples = state.last_samples
    memo = Memo()
    # What lasts is foreseen: rates, and not what slots that stand empty now could hold for a while.
    state = structs.replace(state, deployments=tuple(structs.replace(m, filling=UNKNOWN) for m in state.deployments))
    for _ in range(ahead_s // STRIDE_S):
        now_ms = state.now_ms + STRIDE_S * 1000
        samples = tuple(structs.replace(sample, at_ms=now_ms) for sample in samples)
        told = Observations(
            demand=samples, operators=tuple(settings), policy_version=version, outage_ms=STRIDE_S * 1000
        )
        state = step(state, told, policy, now_ms, memo=memo).state
    assert state.plan is not None
    return state.plan


def marked(plan: Plan, settings: Sequence[OperatorSetting]) -> Plan:
    """The same plan with other operators' settings."""
    memories = {
        one.region: RegionMemory(one.region, one.freshness, health=one.health, gateway=one.gateway)
        for one in plan.regions
    }
    grades = {one.region: one.freshness for one in plan.regions}
    return structs.replace(plan, regions=region_plans(memories, grades, {}, settings, plan.made_at_ms))
