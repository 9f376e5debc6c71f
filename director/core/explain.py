"""Why: every candidate with its rejection or its terms, what it admits and takes in each round, and the pick.

The same object on the API, the CLI and offline. It is made from the very route that decides, never by a second way.
"""

from __future__ import annotations

from math import isfinite

from msgspec import Struct

from director.core.candidates import Judged
from director.core.decide import decide
from director.core.decision import Refusal, Rejection
from director.core.nearness import Nearness
from director.core.plan import BreakerState, DeploymentKey, DeploymentPlan, Freshness, OperatorMark
from director.core.policy import Policy
from director.core.request import Request
from director.core.rounds import Lane
from director.core.route import CompiledRoute
from director.core.state import DeploymentMemory, PlannerState
from director.core.table import RoutingTable


class PlanSummary(Struct, frozen=True):
    epoch: int
    policy: int
    made_at_ms: int
    static: bool


class Capacity(Struct, frozen=True):
    """Tokens/s. `raw_rate_per_slot` and its published twin show what a deadband held back."""

    now: float
    when_well: float
    source: str
    quality: float
    trim: float
    utilisation: float | None = None
    """As last reported."""
    filled: float | None = None
    """The same moved on by what was sent since."""
    rate_per_slot: float | None = None
    raw_rate_per_slot: float | None = None


class Demand(Struct, frozen=True):
    """Tokens/s as the region counts them."""

    offered: float
    captive: float
    pinned: float
    headroom: float
    kappa: float | None = None


class Admissions(Struct, frozen=True):
    captive: float
    home: float
    overflow: tuple[float, ...]
    relief: tuple[float, ...]
    overload: tuple[float, ...]
    release: float


class BreakerView(Struct, frozen=True):
    state: BreakerState
    until_ms: int | None
    held_in: bool


class ShareParts(Struct, frozen=True):
    """Of the route's traffic, by stage."""

    home: float
    overflow: float
    relief: float
    overload: float


class CandidateView(Struct, frozen=True):
    region: str
    model: str
    version: str | None
    jurisdictions: tuple[str, ...]
    freshness: Freshness
    operator: OperatorMark | None
    rejection: Rejection | None
    share: float
    home_share: float
    rtt_ms: float
    nearness: Nearness | None = None
    capacity: Capacity | None = None
    demand: Demand | None = None
    admissions: Admissions | None = None
    breaker: BreakerView | None = None
    shares: ShareParts | None = None
    raw_service_ms: float | None = None
    dns_follows_within_s: float | None = None
    """Worst time until DNS clients follow a failure that only our probes see."""


class Explanation(Struct, frozen=True):
    request: Request
    plan: PlanSummary
    region: str | None
    reason: str | None
    version: str | None
    refused: float
    """The part of the route's traffic that is refused."""
    candidates: tuple[CandidateView, ...]
    fallbacks: tuple[str, ...] = ()
    refusal: str | None = None
    retry_after_s: int | None = None
    affinity: str = "none"
    captive: bool = False


def explain(table: RoutingTable, request: Request, now_ms: int, state: PlannerState | None = None) -> Explanation:
    """Decide, and say why. With the planner's state at hand, raw figures stand beside the published ones."""
    answer = decide(table, request, now_ms)
    plan = table.plan
    summary = PlanSummary(plan.epoch, plan.policy, plan.made_at_ms, plan.static)
    if isinstance(answer, Refusal) and answer.code != "no_region":
        return Explanation(request, summary, None, None, None, 1.0, (), refusal=answer.code)
    route = table.route(table.route_key(request))
    memories = {m.key: m for m in state.deployments} if state is not None else {}
    positions = {route.deployment(i).key: i for i in range(len(route.reach.order))}
    candidates = tuple(_candidate(table, route, judged, positions, memories) for judged in route.judged())
    if isinstance(answer, Refusal):
        return Explanation(
            request,
            summary,
            None,
            None,
            None,
            route.refused,
            candidates,
            refusal="overloaded" if answer.overloaded else answer.code,
            retry_after_s=answer.retry_after_s,
            captive=route.captive,
        )
    return Explanation(
        request,
        summary,
        answer.target.region,
        answer.reason,
        answer.target.version,
        route.refused,
        candidates,
        fallbacks=tuple(target.region for target in answer.fallbacks),
        affinity=answer.affinity_seen,
        captive=route.captive,
    )


def _candidate(
    table: RoutingTable,
    route: CompiledRoute,
    judged: Judged,
    positions: dict[DeploymentKey, int],
    memories: dict[DeploymentKey, DeploymentMemory],
) -> CandidateView:
    region = table.policy.regions[judged.region]
    observed = table.index.regions.get(judged.region)
    d = judged.deployment
    memory = memories.get(d.key) if d is not None else None
    position = positions.get(d.key) if d is not None else None
    return CandidateView(
        region=judged.region,
        model=route.key.model,
        version=d.version if d is not None else None,
        jurisdictions=region.jurisdictions,
        freshness=observed.freshness if observed is not None else "unseen",
        operator=observed.operator if observed is not None else None,
        rejection=judged.rejection,
        share=round(route.lane.total(position), 6) if position is not None else 0.0,
        home_share=round(route.lane.home_share.get(position, 0.0), 6) if position is not None else 0.0,
        rtt_ms=judged.rtt_ms,
        nearness=judged.nearness,
        capacity=_capacity(d, memory) if d is not None else None,
        demand=_demand(d, memory) if d is not None else None,
        admissions=_admissions(d) if d is not None else None,
        breaker=BreakerView(d.breaker, d.breaker_until_ms, d.breaker_held_in) if d is not None else None,
        shares=_parts(route.lane, position) if position is not None else None,
        raw_service_ms=memory.service_ms.fast if memory is not None and memory.service_ms.known else None,
        dns_follows_within_s=dns_follows_within_s(table.policy, judged.region, route.key.model),
    )


def _capacity(d: DeploymentPlan, memory: DeploymentMemory | None) -> Capacity:
    return Capacity(
        now=d.capacity_tokens_per_s,
        when_well=d.capacity_well_tokens_per_s,
        source=d.capacity_source,
        quality=d.quality,
        trim=d.trim,
        utilisation=memory.utilisation if memory is not None else None,
        filled=round(memory.filling.now, 4) if memory is not None and memory.filling.known else None,
        rate_per_slot=memory.rate_per_slot.published if memory is not None and memory.rate_per_slot.known else None,
        raw_rate_per_slot=memory.rate_per_slot.fast if memory is not None and memory.rate_per_slot.known else None,
    )


def _demand(d: DeploymentPlan, memory: DeploymentMemory | None) -> Demand:
    return Demand(
        d.offered_tokens_per_s,
        d.captive_tokens_per_s,
        d.pinned_tokens_per_s,
        d.headroom_tokens_per_s,
        kappa=memory.kappa if memory is not None else None,
    )


def _admissions(d: DeploymentPlan) -> Admissions:
    return Admissions(d.admit_captive, d.admit_home, d.admit_overflow, d.admit_relief, d.admit_overload, d.release)


def _parts(lane: Lane, position: int) -> ShareParts:
    return ShareParts(
        *(round(part.get(position, 0.0), 6) for part in (lane.home, lane.overflow, lane.relief, lane.overload))
    )


def dns_follows_within_s(policy: Policy, region: str, model: str) -> float | None:
    """(interval + timeout) · (tolerated failures + 1) + TTL: the worst case, by the longest TTL of the model's names.

    None where the region is not probed or no name carries the model.
    """
    probe = policy.regions[region].probe
    ttls = [name.ttl_s for zone in policy.dns.values() for name in zone.names.values() if name.model == model]
    if probe is None or not ttls:
        return None
    worst = (probe.interval_s + probe.timeout_s) * (probe.tolerated_failures + 1) + max(ttls)
    return worst if isfinite(worst) else None
