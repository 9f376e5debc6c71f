"""Lining up a tick's admissions: a room for each deployment, a flow for all routes that rank the same regions alike.

Tenants differ mostly in name. Whatever is taken is taken as a fraction, so routes with the same reach and the same
spread get the same fractions in every round, and are one flow: what a step costs goes by how differently routes rank.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from director.core import filling
from director.core.candidates import objective
from director.core.filters import takes_new_sessions
from director.core.plan import DeploymentKey, DeploymentPlan, RegionPlan
from director.core.policy import Policy
from director.core.ranking import PlanIndex, Reach
from director.core.request import RouteKey
from director.core.room import Flow, Room
from director.core.rounds import Lane, home_shares
from director.core.state import DeploymentMemory, RouteMemory

DEMAND_MIN_TOKENS_PER_S = 0.01
"""A route below this is not worth a flow."""
FALLEN = 0.85
"""Demand whose fast average is below this part of what is published has fallen: by noise it hardly ever is."""


class Memo:
    """What one tick leaves for the next: the plan's index, and each route's reach, where they still hold.

    It saves work and changes nothing: a step with an empty memo gives the same bytes.
    """

    def __init__(self) -> None:
        self.index: PlanIndex | None = None
        self.reaches: dict[RouteKey, Reach] = {}


def rooms(
    memories: Sequence[DeploymentMemory],
    deployments: Sequence[DeploymentPlan],
    regions: Mapping[str, RegionPlan],
    decided: Mapping[DeploymentKey, float],
    policy: Policy,
    static: bool,
    dt_s: float,
) -> list[Room]:
    """One room a deployment, in the same order. Under static all are equally unknown: staleness keeps no guest out."""
    out = []
    rise_max, trial_ratio = policy.planner.recovery_per_s * dt_s, policy.breaker.trial_ratio
    for memory, deployment in zip(memories, deployments, strict=True):
        region = regions[deployment.region]
        capacity = deployment.capacity_tokens_per_s * deployment.trim
        life_s = filling.life_s(memory.report)
        background, kappa = memory.background.published, memory.kappa
        sent = decided.get(memory.key, 0.0) * kappa + background
        room = Room(
            key=memory.key,
            capacity=capacity,
            usable=takes_new_sessions(region, deployment),
            fresh=region.freshness == "fresh" or static,
            trial_ratio=trial_ratio if deployment.breaker == "half_open" else None,
            pinned=memory.pinned.published * kappa + background,
            kappa=kappa,
            admit_home_before=memory.admit_home,
            guest_gate=memory.guest_gate,
            admit_rise_max=rise_max,
            capacity_well=deployment.capacity_well_tokens_per_s,
            capacity_now=deployment.capacity_tokens_per_s,
            guessed=deployment.capacity_source == "none",
            filling=filling.moved_on(memory.filling, sent, capacity, life_s, dt_s),
            life_s=life_s,
        )
        out.append(room)
    return out


def flows(
    routes: Sequence[RouteMemory],
    here: Sequence[Room],
    deployments: Sequence[DeploymentPlan],
    regions: tuple[RegionPlan, ...],
    policy: Policy,
    memo: Memo,
) -> list[Flow]:
    """The demand of routes that the policy still knows and somebody serves.

    `here` and `deployments` are in the same order, and so are a model's seats and its deployments in the index.
    """
    index = memo.index = PlanIndex(policy, regions, deployments, memo.index)
    seats: dict[str, list[Room]] = {}
    for room in here:
        seats.setdefault(room.key.model, []).append(room)
    for name, model in index.models.items():
        for room, share_max in zip(seats[name], model.share_max, strict=True):
            room.share_max = share_max
    reaches: dict[RouteKey, Reach] = {}
    found: dict[tuple[Reach, float], Flow] = {}
    for memory in routes:
        key, demand = memory.route, memory.new.published
        known = key.tenant in policy.tenants and key.model in policy.models
        if demand < DEMAND_MIN_TOKENS_PER_S or not known or key.model not in index.models:
            continue
        reach = reaches[key] = index.reach(key, memo.reaches.get(key))
        spread_ms = objective(policy, key).spread_ms
        flow = found.get((reach, spread_ms))
        if flow is None:
            seated = seats[key.model]
            flow = found[reach, spread_ms] = _empty(reach, [seated[i] for i in reach.order], spread_ms)
        now = memory.new.fast if memory.new.fast < FALLEN * demand else demand
        flow.demand += demand
        flow.demand_now += now
        if policy.tenants[key.tenant].on_overload == "share":
            flow.share_overload += now
    memo.reaches = reaches
    for flow in found.values():
        flow.published = flow.demand
        flow.share_overload = flow.share_overload / flow.demand_now if flow.demand_now > 0.0 else 0.0
    return list(found.values())


def _empty(reach: Reach, rooms: list[Room], spread_ms: float) -> Flow:
    # Home is near: most of the rooms are beyond the spread, and are looked at only where nobody within it has capacity.
    within = bisect_right(reach.near_ms, reach.near_ms[0] + spread_ms) if rooms else 0
    well = [room.capacity_well for room in rooms[:within]]
    if not any(well):
        well = [room.capacity_well for room in rooms]
    lane = Lane(reach.near_ms, spread_ms, home_shares(reach.near_ms, well, spread_ms))
    return Flow(0.0, len(rooms) == 1, 0.0, lane, rooms, demand_now=0.0)


def foresee(found: Sequence[Flow]) -> None:
    """What published demand comes to in each room, by its shares."""
    for flow in found:
        for taken in (flow.lane.home, flow.lane.overflow, flow.lane.relief, flow.lane.overload):
            for position, share in taken.items():
                flow.rooms[position].foreseen += flow.published * share
