"""All breakers of a tick: who saw what, who opens, and what the ejection cap keeps in."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from director.core import breaker, quality, witnesses
from director.core.breaker import Seen
from director.core.observations import Observations
from director.core.policy import Objective, Policy
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
    objectives = {name: policy.objectives[model.objective] for name, model in policy.models.items()}
    seen: list[list[Seen]] = []
    out: list[DeploymentMemory] = []
    for memory in memories:
        m, region = memory, memory.key.region
        if throttled and m.key in throttled:
            m = _pressed(m, throttled[m.key], now_ms)
        words = []
        if region in reported:
            own = witnesses.from_report(m.report, spans.get(region, 5.0))
            if own is not None:
                words.append(own)
        if outcomes:
            words += outcomes.get(m.key, ())
        if probes:
            words += probes.get(region, ())
        moved, quality_now = m.breaker, _quality(m, objectives.get(m.key.model), now_ms)
        if not (breaker.is_calm(moved) and all(word.failures <= 0 for word in words)):
            moved = breaker.observe(moved, words, settings, "/".join(m.key), now_ms)
        if moved is not m.breaker or quality_now != m.quality:
            m = structs.replace(m, breaker=moved, quality=quality_now)
        seen.append(words)
        out.append(m)
    _open(out, seen, policy, now_ms)
    return out


TICK_S = 1.0
"""What outcomes are gathered over: a step's."""


def _pressed(memory: DeploymentMemory, seen: witnesses.Backpressure, now_ms: int) -> DeploymentMemory:
    """Takes in what L7s saw turned away. Only upwards: the way down is the reports', which come without it too."""
    ratio = quality.smooth(memory.throttled_ratio, seen.throttled_ratio, TICK_S)
    asked_ms = now_ms + round(1000 * seen.retry_after_s) if seen.retry_after_s else 0
    return structs.replace(
        memory,
        throttled_ratio=max(memory.throttled_ratio, ratio),
        retry_after_ms=max(memory.retry_after_ms, asked_ms),
    )


def _open(out: list[DeploymentMemory], seen: Sequence[Sequence[Seen]], policy: Policy, now_ms: int) -> None:
    """The worst first: a cap that keeps somebody in should keep in the best of the bad."""
    wanting = []
    for place, m in enumerate(out):
        if breaker.wants_to_open(m.breaker, policy.breaker):
            wanting.append(place)
        elif m.breaker.held_in:
            out[place] = structs.replace(m, breaker=structs.replace(m.breaker, held_in=False))
    if not wanting:
        return
    ejected: dict[str, float] = {}
    total: dict[str, float] = {}
    for m in out:
        total[m.model] = total.get(m.model, 0.0) + m.capacity_well
        if m.breaker.state != "closed":  # one on trial may be out again with the next failure
            ejected[m.model] = ejected.get(m.model, 0.0) + m.capacity_well
    wanting.sort(key=lambda place: (-out[place].error_ratio, out[place].key))
    for place in wanting:
        m = out[place]
        ejected_after = ejected.get(m.model, 0.0) + m.capacity_well
        if total[m.model] > 0 and ejected_after > policy.breaker.ejected_capacity_max * total[m.model]:
            held = structs.replace(m.breaker, held_in=True)
        else:
            ejected[m.model] = ejected_after
            held = breaker.trip(m.breaker, "tripped", seen[place], policy.breaker, "/".join(m.key), now_ms)
        out[place] = structs.replace(m, breaker=held)


def _quality(memory: DeploymentMemory, objective: Objective | None, now_ms: int) -> float:
    """1 for a model that the policy does not know."""
    if objective is None:
        return 1.0
    return quality.quality(
        memory.quality, memory.error_ratio, memory.throttled_ratio, memory.retry_after_ms, objective, now_ms
    )
