"""Demand: what the director knows without delay, from its own replicas.

Per route, new demand (which could go anywhere the policy allows) and pinned (claimed by affinity tokens) are followed
apart, in the replicas' estimated tokens per second. A replica whose row is late is taken to go on as before for
`REPLICA_HELD_MS`: a missing row is not a lull.

κ corrects the estimates where they land: arrivals that a region reports ÷ tokens decided into it over the same span,
both smoothed alike. It absorbs wrong token estimates, resolvers that share one DNS answer among many, and an L7 that
reuses a decision. Where answers are shared (κ above `KAPPA_SHARED`) there are few decisions, and three things differ:
what was decided is published demand × shares, for where a few decisions happened to go is chance; a step is seen in
arrivals alone, so when decisions have been steady a step of arrivals is taken into κ at once, from the first report to
hold it whole; and while they are not, κ waits, because arrivals then follow decisions only as answers expire, and
following them would ring. Arrivals beyond `KAPPA_MAX` times the decided are nobody's we know: background, which cannot
move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from msgspec import Struct, structs

from director.core.deadband import NOISE_S, Band, Tracker, noise_after, observe, restart, weight
from director.core.observations import DemandSample
from director.core.plan import DeploymentKey
from director.core.request import RouteKey
from director.core.state import DeploymentMemory, RouteMemory

DEMAND_BAND = Band(fast_s=3.0, slow_s=15.0, sigmas=6.0, floor_ratio=0.02, floor=1.0, counted=True)
PINNED_BAND = Band(fast_s=3.0, slow_s=15.0, sigmas=4.0, floor_ratio=0.02, floor=1.0)
REPLICA_HELD_MS = 3_000
ROUTE_QUIET_S = 120.0
"""A route without demand for this long is forgotten."""
KAPPA_S = 60.0
KAPPA_MIN, KAPPA_MAX = 0.05, 10_000.0
"""Thousands of clients behind one resolver follow one answer."""
KAPPA_SHARED = 3.0
"""Beyond what wrong estimates explain: several requests follow each decision."""
DECIDED_FAST_S = 10.0
STEADY = 0.12
"""Decisions are steady while their fast and slow averages differ by no more than this part."""
ARRIVAL_BAND = Band(fast_s=60.0, slow_s=60.0, sigmas=4.0, floor_ratio=0.15)
ARRIVALS_MIN = 8
"""Reports before their noise is known."""
KAPPA_STEP, KAPPA_SIGMAS = 0.05, 6.0
"""κ is republished when it has moved by this part of itself, and by so many of its own standard errors."""
KAPPA_LEARNING_S, KAPPA_LEARNING_STEP = 180.0, 0.01
"""What stands for the hours to come is learnt closely first."""
UNFOLLOWED = Tracker()
NEWCOMER_S = 6.0
"""A plan reaches every replica well within this, and a report's span ends."""
DECIDED_MIN_TOKENS_PER_S = 1.0
"""Below this κ would be a ratio of two noises."""


class Rates(NamedTuple):
    """Tokens/s over all replicas."""

    new: dict[RouteKey, float]
    pinned: dict[DeploymentKey, float]
    decided: dict[DeploymentKey, float]
    last_samples: tuple[DemandSample, ...]


def rates(last: Iterable[DemandSample], samples: Iterable[DemandSample], now_ms: int) -> Rates:
    """Sum what replicas decided per second, bridging a replica's late row by its last."""
    by_replica: dict[str, list[DemandSample]] = {}
    for sample in samples:
        by_replica.setdefault(sample.replica, []).append(sample)
    for sample in last:
        if sample.replica not in by_replica and now_ms - sample.at_ms <= REPLICA_HELD_MS:
            by_replica[sample.replica] = [sample]
    new: dict[RouteKey, float] = {}
    pinned: dict[DeploymentKey, float] = {}
    decided: dict[DeploymentKey, float] = {}
    newest = []
    for replica in sorted(by_replica):
        group = by_replica[replica]
        newest.append(max(group, key=lambda s: s.at_ms))
        per_s = 1000.0 / max(1, sum(s.span_ms for s in group))
        for sample in group:
            _add(sample, per_s, new, pinned, decided)
    return Rates(new, pinned, decided, tuple(newest))


def follow_routes(known: Iterable[RouteMemory], new: dict[RouteKey, float], dt_s: float) -> tuple[RouteMemory, ...]:
    """Move every route's tracker on; forget routes that have been quiet."""
    memories = {m.route: m for m in known}
    for key in new:
        memories.setdefault(key, RouteMemory(key))
    out = []
    for key in sorted(memories, key=_route_order):
        memory, rate = memories[key], new.get(key, 0.0)
        quiet_s = 0.0 if rate > 0 else memory.quiet_s + dt_s
        if quiet_s < ROUTE_QUIET_S:
            out.append(RouteMemory(key, observe(memory.new, rate, dt_s, DEMAND_BAND), quiet_s))
    return tuple(out)


def follow_pinned(
    memories: Sequence[DeploymentMemory], pinned: Mapping[DeploymentKey, float], dt_s: float
) -> list[DeploymentMemory]:
    """Move pinned demand on, where there is or was any."""
    out = []
    for memory in memories:
        tracker, tokens = memory.pinned, pinned.get(memory.key, 0.0)
        if tokens > 0.0 or tracker.samples > 0:
            memory = structs.replace(memory, pinned=observe(tracker, tokens, dt_s, PINNED_BAND))
        out.append(memory)
    return out


def correct(memory: DeploymentMemory, arrived_tokens_per_s: float | None, span_s: float) -> DeploymentMemory:
    """Take a report's arrivals against what was decided over the same span: κ, and the background.

    The first spans of a deployment are left out: what was decided before it was in the plan is not on its account.
    """
    # Where answers are shared there are few decisions, and where each of them happened to go says little.
    shared = memory.kappa > KAPPA_SHARED
    decided_per_s = (memory.foreseen_since_report if shared else memory.decided_since_report) / span_s
    counted_s = memory.counted_s + span_s
    if arrived_tokens_per_s is None or counted_s <= NEWCOMER_S:
        return structs.replace(memory, decided_since_report=0.0, foreseen_since_report=0.0, counted_s=counted_s)
    counted = Counted(memory.arrived_tokens, memory.decided_tokens, memory.decided_fast, memory.arrivals)
    counted = _count(counted, arrived_tokens_per_s, decided_per_s, span_s, counted_s - NEWCOMER_S, memory.kappa)
    kappa, unexplained = memory.kappa, 0.0
    ratio, noise = _ratio(memory, arrived_tokens_per_s, decided_per_s, span_s)
    arrived, decided = counted.arrived, counted.decided
    if decided >= DECIDED_MIN_TOKENS_PER_S and arrived > 0:
        steady = abs(counted.decided_fast - decided) <= STEADY * decided
        if not shared or steady:
            raw = min(KAPPA_MAX, max(KAPPA_MIN, arrived / decided))
            learning = counted.stepped or counted_s - NEWCOMER_S < KAPPA_LEARNING_S
            gap = KAPPA_LEARNING_STEP if learning else _gap(noise, kappa, span_s)
            kappa = raw if abs(raw - kappa) > gap * kappa else kappa
        unexplained = max(0.0, arrived - KAPPA_MAX * decided)
    elif decided < DECIDED_MIN_TOKENS_PER_S:
        unexplained = arrived
    return structs.replace(
        memory,
        arrived_tokens=arrived,
        decided_tokens=decided,
        decided_fast=counted.decided_fast,
        arrivals=counted.arrivals,
        decided_since_report=0.0,
        foreseen_since_report=0.0,
        counted_s=counted_s,
        kappa=kappa,
        ratio_last=ratio,
        ratio_noise=noise,
        background=_followed(memory.background, unexplained, span_s),
    )


def _ratio(memory: DeploymentMemory, arrived: float, decided: float, span_s: float) -> tuple[float, float]:
    """The span's own ratio to κ, and the variance of such ratios. A jump counts no more than a few of those known."""
    if decided < DECIDED_MIN_TOKENS_PER_S:
        return memory.ratio_last, memory.ratio_noise
    ratio = arrived / (decided * memory.kappa)
    if memory.ratio_last < 0.0:
        return ratio, 0.0
    least = KAPPA_STEP if memory.ratio_noise > 0.0 else None
    return ratio, noise_after(memory.ratio_noise, ratio, memory.ratio_last, weight(span_s, NOISE_S), least)


def _followed(background: Tracker, unexplained: float, span_s: float) -> Tracker:
    """As a rule there is none, and nothing to follow."""
    if unexplained <= 0.0 and not background.known:
        return background
    return observe(background, unexplained, span_s, DEMAND_BAND)


def _gap(noise: float, kappa: float, span_s: float) -> float:
    """By what part of itself κ must have moved. Where answers are shared its spans are few resolvers' expiries: wide
    noise, of which waiting for would cost more than following.
    """
    if kappa > KAPPA_SHARED:
        return KAPPA_STEP
    a = weight(span_s, KAPPA_S)
    return max(KAPPA_STEP, KAPPA_SIGMAS * sqrt(noise * a / (2.0 - a)))


class Counted(Struct, frozen=True, gc=False):
    """Arrivals and decisions of one deployment, tokens/s."""

    arrived: float
    decided: float
    decided_fast: float
    arrivals: Tracker
    """Arrivals as a followed value, where answers are shared: a step in it is known within two reports."""
    stepped: bool = False
    """It has just stepped, and κ with it."""


def _count(known: Counted, arrived: float, decided: float, span_s: float, counted_s: float, kappa: float) -> Counted:
    """Take one report's span into the averages. Where answers are shared, a step of arrivals while decisions are steady
    starts them anew; where they are not, decisions know it sooner."""
    early = min(1.0, span_s / counted_s)
    a = max(weight(span_s, KAPPA_S), early)
    fast = known.decided_fast + max(weight(span_s, DECIDED_FAST_S), early) * (decided - known.decided_fast)
    slow = known.decided + a * (decided - known.decided)
    if kappa <= KAPPA_SHARED:
        return Counted(known.arrived + a * (arrived - known.arrived), slow, fast, UNFOLLOWED)
    arrivals = _follow_arrivals(known.arrivals, arrived, span_s)
    stepped = arrivals.published == arrived != known.arrivals.published and known.arrivals.known
    if stepped and abs(fast - slow) <= STEADY * slow:
        return Counted(arrived, decided, decided, arrivals, stepped=True)
    return Counted(known.arrived + a * (arrived - known.arrived), slow, fast, arrivals)


def _follow_arrivals(followed: Tracker, arrived: float, span_s: float) -> Tracker:
    """A level, slowly averaged, of which two reports in a row must be off to the same side before it steps. The step
    fell somewhere into the first; the second is the new level, whole. One alone teaches nothing, least of all noise.
    """
    if not followed.known:
        return observe(followed, arrived, span_s, ARRIVAL_BAND)
    level, samples = followed.published, followed.samples
    off = max(ARRIVAL_BAND.floor_ratio * level, ARRIVAL_BAND.sigmas * sqrt(followed.noise))
    before, now = followed.last - level, arrived - level
    if abs(now) > off:
        if before * now > 0.0 and abs(before) > off:
            return restart(followed, arrived, span_s)
        return structs.replace(followed, last=arrived)
    last = followed.last if abs(before) <= off else level
    least = ARRIVAL_BAND.floor_ratio * level if samples >= ARRIVALS_MIN else None
    early = 1.0 / (samples + 1)
    level += max(weight(span_s, ARRIVAL_BAND.slow_s), early) * now
    noise = noise_after(followed.noise, arrived, last, max(weight(span_s, NOISE_S), early), least)
    return Tracker(level, level, level, noise, arrived, followed.seen_s + span_s, samples + 1)


def _add(
    sample: DemandSample,
    per_s: float,
    new: dict[RouteKey, float],
    pinned: dict[DeploymentKey, float],
    decided: dict[DeploymentKey, float],
) -> None:
    for demand in sample.routes:
        route = RouteKey(*demand.route)
        new[route] = new.get(route, 0.0) + demand.new_tokens * per_s
        for part in demand.pinned:
            key = DeploymentKey(part.region, route.model, part.version)
            pinned[key] = pinned.get(key, 0.0) + part.tokens * per_s
        for part in demand.decided:
            key = DeploymentKey(part.region, route.model, part.version)
            decided[key] = decided.get(key, 0.0) + part.tokens * per_s


def _route_order(key: RouteKey) -> tuple[object, ...]:
    return (key.tenant, key.residency, key.model, key.version, key.adapter or "", key.client_zone)
