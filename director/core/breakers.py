"""All breakers of a tick: who saw what, who opens, and what the ejection cap keeps in."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from director.core import breaker, quality, witnesses
from director.core.breaker import Seen
from director.core.observations import Observations
from director.core.plan import DeploymentKey
from director.core.policy import Policy
from director.core.state import DeploymentMemory


def turn(
    memories: Sequence[DeploymentMemory],
    reported: frozenset[str],
    observations: Observations,
    policy: Policy,
    now_ms: int,
) -> list[DeploymentMemory]:
    """Move every breaker and quality on. Opens those that want to, as far as `ejected_capacity_max` allows."""
    settings = policy.breaker
    spans = {r.region: r.report.interval_s for r in observations.reports}
    outcomes = witnesses.from_outcomes(observations.outcomes)
    throttled = witnesses.backpressure(observations.outcomes)
    probes = witnesses.from_probes(observations.probes)
    seen: dict[DeploymentKey, tuple[Seen, ...]] = {}
    out: dict[DeploymentKey, DeploymentMemory] = {}
    for memory in memories:
        m = _pressed(memory, throttled.get(memory.key), now_ms)
        own = witnesses.from_report(m.report, spans.get(m.region, 5.0)) if m.region in reported else None
        words = [*([own] if own is not None else []), *outcomes.get(m.key, ()), *probes.get(m.region, ())]
        seen[m.key] = tuple(words)
        quality_now = _quality(m, policy, now_ms)
        if breaker.is_calm(m.breaker) and all(word.failures <= 0 for word in words):
            moved = m.breaker
        else:
            moved = breaker.observe(m.breaker, seen[m.key], settings, "/".join(m.key), now_ms)
        if moved is not m.breaker or quality_now != m.quality:
            m = structs.replace(m, breaker=moved, quality=quality_now)
        out[m.key] = m
    _open(out, seen, policy, now_ms)
    return [out[m.key] for m in memories]


TICK_S = 1.0
"""What outcomes are gathered over: a step's."""


def _pressed(memory: DeploymentMemory, seen: witnesses.Backpressure | None, now_ms: int) -> DeploymentMemory:
    """Takes in what L7s saw turned away. Only upwards: the way down is the reports', which come without it too."""
    if seen is None:
        return memory
    ratio = quality.smooth(memory.throttled_ratio, seen.throttled_ratio, TICK_S)
    asked_ms = now_ms + round(1000 * seen.retry_after_s) if seen.retry_after_s else 0
    return structs.replace(
        memory,
        throttled_ratio=max(memory.throttled_ratio, ratio),
        retry_after_ms=max(memory.retry_after_ms, asked_ms),
    )


def _open(
    out: dict[DeploymentKey, DeploymentMemory], seen: dict[DeploymentKey, tuple[Seen, ...]], policy: Policy, now_ms: int
) -> None:
    """The worst first: a cap that keeps somebody in should keep in the best of the bad."""
    ejected: dict[str, float] = {}
    total: dict[str, float] = {}
    for m in out.values():
        model = m.key.model
        total[model] = total.get(model, 0.0) + m.capacity_well
        if m.breaker.state != "closed":  # one on trial may be out again with the next failure
            ejected[model] = ejected.get(model, 0.0) + m.capacity_well
    wanting = [m for m in out.values() if breaker.wants_to_open(m.breaker, policy.breaker)]
    wanting.sort(key=lambda m: (-m.error_ratio, m.key))
    for m in wanting:
        ejected_after = ejected.get(m.model, 0.0) + m.capacity_well
        if total[m.model] > 0 and ejected_after > policy.breaker.ejected_capacity_max * total[m.model]:
            held = structs.replace(m.breaker, held_in=True)
        else:
            ejected[m.model] = ejected_after
            held = breaker.trip(m.breaker, "tripped", seen[m.key], policy.breaker, "/".join(m.key), now_ms)
        out[m.key] = structs.replace(m, breaker=held)
    for m in tuple(out.values()):
        if m.breaker.held_in and not breaker.wants_to_open(m.breaker, policy.breaker):
            out[m.key] = structs.replace(m, breaker=structs.replace(m.breaker, held_in=False))


def _quality(memory: DeploymentMemory, policy: Policy, now_ms: int) -> float:
    model = policy.models.get(memory.model)
    if model is None:
        return 1.0
    return quality.quality(
        memory.quality,
        memory.error_ratio,
        memory.throttled_ratio,
        memory.retry_after_ms,
        policy.objectives[model.objective],
        now_ms,
    )
