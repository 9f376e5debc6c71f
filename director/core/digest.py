"""Taking a region's newest report into the planner's memory. Each report is taken once, by boot id and sequence."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from director.core import capacity, filling, quality
from director.core.curve import Curve, forget_last
from director.core.deadband import Band, Tracker, observe
from director.core.demand import correct
from director.core.observations import ReceivedReport
from director.core.plan import DeploymentKey
from director.core.policy import Policy
from director.core.report import DeploymentReport
from director.core.state import DeploymentMemory, RegionMemory

SERVICE_BAND = Band(fast_s=60.0, slow_s=300.0, sigmas=4.0, floor_ratio=0.10, floor=5.0, learning_s=120.0)
"""Time to first token when not loaded: slow on purpose, for nearness must not follow load."""
UNLOADED = 0.6
"""Utilisation below which a time to first token counts as not loaded."""
TURNED_AWAY_MAX = 0.05
"""Above this, arrivals are not counted: some gateways count what they turn away and some do not, and κ would follow."""
INTERVALS_MAX = 3.0
"""A report after a longer silence stands for its own interval, not for the silence."""


def take_report(
    memories: Mapping[DeploymentKey, DeploymentMemory],
    before: RegionMemory | None,
    received: ReceivedReport,
    policy: Policy,
    *,
    warm: bool = False,
) -> list[DeploymentMemory]:
    """A region's deployments, whole: one that is no longer listed is gone, a new one starts from its siblings."""
    span_s, unbroken = _span(before, received)
    out = []
    for deployment in received.report.deployments:
        key = DeploymentKey(received.region, deployment.model, deployment.version)
        memory = memories.get(key) or _newcomer(key, deployment, memories, warm)
        if not unbroken:
            # How full the engines were before a silence says nothing of this interval.
            memory = structs.replace(memory, curve=forget_last(memory.curve))
        ratios = quality.ratios(deployment)
        memory = _take_deployment(memory, deployment, ratios, received.received_at_ms, span_s, policy)
        out.append(correct(memory, _arrived(memory, ratios) if unbroken else None, span_s))
    return out


def _span(before: RegionMemory | None, received: ReceivedReport) -> tuple[float, bool]:
    """Seconds that a report stands for, and whether it joins the one before: same boot, no long silence between."""
    interval_s = received.report.interval_s
    if before is None or before.boot_id != received.report.boot_id or not before.received_at_ms:
        return interval_s, False
    elapsed_s = (received.received_at_ms - before.received_at_ms) / 1000
    if 0 < elapsed_s <= INTERVALS_MAX * interval_s:
        return elapsed_s, True
    return interval_s, False


def _newcomer(
    key: DeploymentKey, report: DeploymentReport, memories: Mapping[DeploymentKey, DeploymentMemory], warm: bool
) -> DeploymentMemory:
    """A deployment seen for the first time. In the place of another version of its model it goes on from there; where
    the model already runs elsewhere it starts cold; and when nobody serves the model yet there is nothing to ease in.
    """
    siblings = [m for k, m in memories.items() if k.region == key.region and k.model == key.model]
    if siblings:
        best = max(siblings, key=lambda m: (m.admit_home, m.version))
        return DeploymentMemory(
            key,
            report=report,
            rate_per_slot=best.rate_per_slot,
            curve=best.curve,
            mix=best.mix,
            kappa=best.kappa,
            arrived_tokens=best.arrived_tokens,
            decided_tokens=best.decided_tokens,
            decided_fast=best.decided_fast,
            arrivals=best.arrivals,
            admit_home=best.admit_home,
            guest_gate=best.guest_gate,
        )
    cold = not warm and any(k.model == key.model for k in memories)
    start = 0.0 if cold else 1.0
    return DeploymentMemory(key, report=report, admit_home=start, guest_gate=start)


def _take_deployment(
    memory: DeploymentMemory,
    report: DeploymentReport,
    ratios: quality.Ratios,
    at_ms: int,
    span_s: float,
    policy: Policy,
) -> DeploymentMemory:
    used = capacity.utilisation(report)
    known = capacity.Learnt(memory.rate_per_slot, memory.curve, memory.mix)
    if memory.limited_s > capacity.KEPT_OUT_S and capacity.idle(report):
        # A figure that keeps everybody out could never be disproved.
        known = capacity.Learnt(Tracker(), Curve(), memory.mix)
    learnt = capacity.learn(known, report, span_s, policy.planner.home_target, memory.filling)
    failed, throttled = ratios
    return structs.replace(
        memory,
        report=report,
        reported_at_ms=at_ms,
        mix=learnt.mix,
        rate_per_slot=learnt.rate,
        curve=learnt.curve,
        utilisation=used,
        filling=filling.reported(memory.filling, used),
        error_ratio=quality.smooth(memory.error_ratio, failed, span_s),
        throttled_ratio=quality.smooth(memory.throttled_ratio, throttled, span_s),
        retry_after_ms=_retry_after_ms(memory, report, at_ms),
        service_ms=_service(memory, report, used, span_s),
    )


def _arrived(memory: DeploymentMemory, ratios: quality.Ratios) -> float | None:
    """Arrivals that may be held against decisions, tokens/s: not of who turns many away."""
    arrived = memory.report.arrived
    failed, throttled = ratios
    if arrived is None or memory.breaker.state != "closed":
        return None
    return None if (failed or 0.0) + (throttled or 0.0) > TURNED_AWAY_MAX else arrived.tokens_per_s


def _service(memory: DeploymentMemory, report: DeploymentReport, used: float | None, span_s: float) -> Tracker:
    ttft_ms = report.ttft_ms.p50 if report.ttft_ms is not None else None
    if ttft_ms is None or used is None or used >= UNLOADED or (report.waiting or 0.0) > 0:
        return memory.service_ms
    return observe(memory.service_ms, ttft_ms, span_s, SERVICE_BAND)


def _retry_after_ms(memory: DeploymentMemory, report: DeploymentReport, at_ms: int) -> int:
    """The later deadline stands."""
    asked = at_ms + round(1000 * report.retry_after_s) if report.retry_after_s else 0
    return max(memory.retry_after_ms, asked)
