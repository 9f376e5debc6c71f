"""Who saw what of a deployment since the last step, in the breaker's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from director.core.breaker import OWN_FIGURES, Seen
from director.core.observations import Outcome, ProbeResult
from director.core.plan import DeploymentKey
from director.core.report import DeploymentReport

FAILURES = frozenset({"server", "timeout", "connect"})
"""What counts against a deployment. Throttling is backpressure, client errors are the client's."""


def from_report(report: DeploymentReport, span_s: float) -> Seen | None:
    """The region's own figures over the span that a report covers."""
    errors, done = report.errors_per_s, report.completed
    failures = (errors.server + errors.timeout + errors.connect) * span_s if errors is not None else 0.0
    successes = (done.requests_per_s or 0.0) * span_s if done is not None else 0.0
    if failures == 0 and successes == 0:
        return None
    return Seen(OWN_FIGURES, failures, successes, report.retry_after_s)


def from_outcomes(outcomes: Iterable[Outcome]) -> Mapping[DeploymentKey, list[Seen]]:
    """One witness a reporter."""
    counts: dict[tuple[DeploymentKey, str], list[float]] = {}
    waits: dict[tuple[DeploymentKey, str], float] = {}
    for outcome in outcomes:
        place = (DeploymentKey(outcome.region, outcome.model, outcome.version), outcome.reporter)
        pair = counts.setdefault(place, [0.0, 0.0])
        if outcome.outcome in FAILURES:
            pair[0] += outcome.count
            if outcome.retry_after_s:
                waits[place] = max(waits.get(place, 0.0), outcome.retry_after_s)
        elif outcome.outcome == "ok":
            pair[1] += outcome.count
    out: dict[DeploymentKey, list[Seen]] = {}
    for (key, reporter), (failures, successes) in sorted(counts.items()):
        out.setdefault(key, []).append(Seen(f"outcomes:{reporter}", failures, successes, waits.get((key, reporter))))
    return out


class Backpressure(NamedTuple):
    """How much of what L7s sent a deployment turned away, and for how long it asked to be left alone."""

    throttled_ratio: float
    retry_after_s: float


def backpressure(outcomes: Iterable[Outcome]) -> Mapping[DeploymentKey, Backpressure]:
    """429 and 503 as the L7s saw them: the region's own words, so that one reporter is enough to believe them."""
    counts: dict[DeploymentKey, list[float]] = {}
    for outcome in outcomes:
        if outcome.outcome == "client":
            continue
        sums = counts.setdefault(DeploymentKey(outcome.region, outcome.model, outcome.version), [0.0, 0.0, 0.0])
        sums[0] += outcome.count
        if outcome.outcome == "throttled":
            sums[1] += outcome.count
            sums[2] = max(sums[2], outcome.retry_after_s or 0.0)
    return {key: Backpressure(sums[1] / sums[0], sums[2]) for key, sums in counts.items() if sums[1] > 0}


def from_probes(probes: Iterable[ProbeResult]) -> Mapping[str, list[Seen]]:
    """One witness a replica, for every deployment of the region: one gateway serves them all."""
    counts: dict[tuple[str, str], list[float]] = {}
    for probe in probes:
        pair = counts.setdefault((probe.region, probe.replica), [0.0, 0.0])
        pair[1 if probe.ok else 0] += 1
    out: dict[str, list[Seen]] = {}
    for (region, replica), (failures, successes) in sorted(counts.items()):
        out.setdefault(region, []).append(Seen(f"probe:{replica}", failures, successes))
    return out
