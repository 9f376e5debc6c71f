"""One tick of the planner: state, observations, policy and time in; state, plan and events out. Pure.

    reports ─▶ memory (capacity, quality, service, κ) ─▶ breakers ─▶ base plan ─┐
    demand  ─▶ routes' trackers ────────────────────────────────────────────────┴▶ admissions ─▶ plan, if it differs

A plan is made only when a published value changes; the state is made anew each time.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from director.core import base, breakers, changes, digest, freshness, publish, trim
from director.core.admission import admit
from director.core.demand import KAPPA_SHARED, follow_pinned, follow_routes, rates
from director.core.events import Event
from director.core.flows import Memo, flows, foresee, rooms
from director.core.observations import Observations
from director.core.plan import DeploymentKey, DeploymentPlan, Freshness, Plan
from director.core.policy import Policy
from director.core.room import Room
from director.core.state import DeploymentMemory, PlannerState, RegionMemory

DT_S_MAX = 10.0
"""A longer gap between steps (a new leader, a paused process) is taken as this long: nothing rises by waiting."""


class StepResult(NamedTuple):
    state: PlannerState
    plan: Plan | None
    events: tuple[Event, ...]


def step(
    state: PlannerState,
    observations: Observations,
    policy: Policy,
    now_ms: int,
    *,
    previous_epoch: int = 0,
    term: int = 0,
    memo: Memo | None = None,
) -> StepResult:
    """Make the next state and, when something published changes, the next plan. `memo` only saves work."""
    now_ms = max(now_ms, state.now_ms)
    dt_s = min(DT_S_MAX, max(0.001, (now_ms - state.now_ms) / 1000)) if state.now_ms else 1.0
    before = {r.region: r for r in state.regions}
    regions = freshness.observe_regions(before, observations, policy, now_ms)
    first_ms = state.first_ms or now_ms
    # Until everybody had time to report once, nobody who appears is a newcomer to be eased in.
    settling = now_ms - first_ms <= 1000 * policy.planner.lost_after_s
    memories, fresh_reports = _take_reports(state, before, observations, policy, settling)
    demand = rates(state.last_samples, observations.demand, now_ms)
    memories = follow_pinned(memories, demand.pinned, dt_s)
    routes = follow_routes(state.routes, demand.new, dt_s)
    memories = breakers.turn(memories, fresh_reports, observations, policy, now_ms)
    grades, static = _grades(before, regions, tuple(memories), policy, now_ms)
    down = {name: freshness.probed_down(memory, policy) for name, memory in regions.items()}
    region_plans = base.region_plans(regions, grades, down, observations.operators, now_ms)
    deployments = base.deployment_plans(memories, policy)
    served = tuple(sorted({*state.models_served, *(m.model for m in memories)}))
    by_region = {r.region: r for r in region_plans}
    here = rooms(memories, deployments, by_region, demand.decided, policy, static, dt_s)
    wanting = flows(routes, here, deployments, region_plans, policy, memo or Memo())
    admit(here, wanting, policy.planner)
    foresee(wanting)
    memories = [
        _remember(m, r, d, demand.decided.get(m.key, 0.0), demand.pinned.get(m.key, 0.0), policy, dt_s)
        for m, r, d in zip(memories, here, deployments, strict=True)
    ]
    plan = publish.assemble(
        state.plan,
        region_plans,
        publish.with_admissions(state.plan, deployments, here),
        served,
        static,
        observations.policy_version,
        previous_epoch,
        term,
        now_ms,
    )
    events = changes.events(state.plan, plan, now_ms) if plan is not None else ()
    new_state = PlannerState(
        now_ms=now_ms,
        regions=tuple(structs.replace(memory, freshness=grades[name]) for name, memory in regions.items()),
        deployments=tuple(memories),
        routes=routes,
        last_samples=demand.last_samples,
        models_served=served,
        plan=plan or state.plan,
        first_ms=first_ms,
    )
    return StepResult(new_state, plan, events)


def _take_reports(
    state: PlannerState,
    before: dict[str, RegionMemory],
    observations: Observations,
    policy: Policy,
    settling: bool,
) -> tuple[list[DeploymentMemory], frozenset[str]]:
    """Every deployment's memory after the reports that are news, in a fixed order; and the regions that reported."""
    by_region: dict[str, list[DeploymentMemory]] = {}
    for memory in state.deployments:
        by_region.setdefault(memory.region, []).append(memory)
    known: dict[DeploymentKey, DeploymentMemory] = {m.key: m for m in state.deployments}
    news = set()
    for received in sorted(observations.reports, key=lambda r: r.region):
        region = before.get(received.region)
        if received.region not in policy.regions or (region is not None and not freshness.is_news(region, received)):
            continue
        news.add(received.region)
        by_region[received.region] = digest.take_report(known, region, received, policy, warm=settling)
    memories = [m for name in policy.regions for m in by_region.get(name, ())]
    memories.sort(key=lambda m: m.key)
    return memories, frozenset(news)


def _grades(
    before: dict[str, RegionMemory],
    regions: dict[str, RegionMemory],
    memories: tuple[DeploymentMemory, ...],
    policy: Policy,
    now_ms: int,
) -> tuple[dict[str, Freshness], bool]:
    """Each region's grade, and whether the silence is ours: then those that fell silent keep the grade they had."""
    grades: dict[str, Freshness] = {name: freshness.grade(memory, policy, now_ms) for name, memory in regions.items()}
    confirmed = {name: freshness.probed_down(memory, policy) for name, memory in regions.items()}
    quiet = {name: freshness.silent(memory, policy, now_ms) for name, memory in regions.items()}
    ours = freshness.silence_is_ours(before, quiet, confirmed, memories, policy.breaker.ejected_capacity_max)
    if ours:
        for name, memory in before.items():
            if quiet.get(name) and memory.freshness not in ("lost", "unseen"):
                grades[name] = memory.freshness
    return grades, ours


def _remember(
    memory: DeploymentMemory,
    room: Room,
    deployment: DeploymentPlan,
    decided: float,
    pinned: float,
    policy: Policy,
    dt_s: float,
) -> DeploymentMemory:
    """What pace, trim, and what was decided into it (tokens/s) carry to the next tick."""
    rising = policy.planner.recovery_per_s * dt_s
    may_host = room.usable and room.fresh and room.trial_ratio is None and room.admit_home >= 1.0 - 1e-9
    mode = _trim_mode(room, memory, policy)
    limited_s = 0.0 if mode == "relaxes" else memory.limited_s + dt_s
    raw, published = trim.move(
        memory.trim,
        memory.trim_published,
        mode,
        memory.utilisation,
        policy.planner.home_target,
        dt_s,
        may_rise=mode == "limits" and trim.full_by_now(room.life_s, limited_s),
        shared=memory.kappa > KAPPA_SHARED,
    )
    return structs.replace(
        memory,
        capacity_well=deployment.capacity_well_tokens_per_s,
        decided_since_report=memory.decided_since_report + decided * dt_s,
        foreseen_since_report=memory.foreseen_since_report + (room.foreseen + pinned * (1.0 - room.release)) * dt_s,
        # Slow start is for who was away: a guess too low is no absence.
        admit_home=max(room.admit_home, memory.admit_home) if room.guessed else room.admit_home,
        guest_gate=(gate if (gate := memory.guest_gate + rising) < 1.0 else 1.0) if may_host else 0.0,
        limited_s=limited_s,
        filling=room.filling,
        trim=raw,
        trim_published=published,
    )


def _trim_mode(room: Room, memory: DeploymentMemory, policy: Policy) -> trim.Mode:
    if not room.usable or room.admit_home_raw >= 1.0:
        return "relaxes"
    if room.admit_home < room.admit_home_raw - 1e-6 or memory.quality < 1.0:
        # Pace, a trial, or errors are what limits: a region is emptier than its target for that reason.
        return "waits"
    target, used = policy.planner.home_target, memory.utilisation
    if room.taken <= target * room.capacity * 1.001:
        return "limits"
    # Filled beyond the target on purpose: that it is full says nothing, and that it is not, that the trim fell too far.
    return "limits" if memory.trim < 1.0 and used is not None and used < target else "waits"
