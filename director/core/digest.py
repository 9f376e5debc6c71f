"""Taking a region's newest report into the planner's memory. Each report is taken once, by boot id and sequence."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from director.core import capacity, quality
from director.core.deadband import Band, Tracker, observe
from director.core.demand import correct
from director.core.observations import ReceivedReport
from director.core.plan import DeploymentKey
from director.core.policy import Policy
from director.core.report import DeploymentReport
from director.core.state import DeploymentMemory, RegionMemory

SERVICE_BAND = Band(fast_s=60.0, slow_s=300.0, sigmas=4.0, floor_ratio=0.10, floor=5.0)
"""Time to first token when not loaded: slow on purpose, for nearness must not follow load."""
UNLOADED = 0.6
"""Utilisation below which a time to first token counts as not loaded."""
SPAN_S_MAX = 60.0
"""A report after a long silence stands for its own interval, not for the silence."""


def take_report(
    memories: Mapping[DeploymentKey, DeploymentMemory],
    before: RegionMemory | None,
    received: ReceivedReport,
    policy: Policy,
    *,
    warm: bool = False,
) -> list[DeploymentMemory]:
    """A region's deployments, whole: one that is no longer listed is gone, a new one starts from its siblings."""
    report = received.report
    span_s = report.interval_s
    if before is not None and before.boot_id == report.boot_id and before.received_at_ms:
        elapsed_s = (received.received_at_ms - before.received_at_ms) / 1000
        if 0 < elapsed_s <= SPAN_S_MAX:
            span_s = elapsed_s
    out = []
    for deployment in report.deployments:
        key = DeploymentKey(received.region, deployment.model, deployment.version)
        memory = memories.get(key) or _newcomer(key, deployment, memories, warm)
        out.append(_take_deployment(memory, deployment, received.received_at_ms, span_s, policy))
    return out


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
            mix=best.mix,
            kappa=best.kappa,
            arrived_tokens=best.arrived_tokens,
            decided_tokens=best.decided_tokens,
            admit_home=best.admit_home,
            guest_gate=best.guest_gate,
        )
    cold = not warm and any(k.model == key.model for k in memories)
    start = 0.0 if cold else 1.0
    return DeploymentMemory(key, report=report, admit_home=start, guest_gate=start)


def _take_deployment(
    memory: DeploymentMemory, report: DeploymentReport, at_ms: int, span_s: float, policy: Policy
) -> DeploymentMemory:
    used = capacity.utilisation(report)
    sheds_below_target = memory.admit_home < 1.0 and used is not None and used < policy.planner.home_target - 0.05
    mix = capacity.follow_mix(memory.mix, report, span_s)
    trusted, low = capacity.learn(
        memory.rate_per_slot, memory.rate_per_slot_low, report, mix, span_s, sheds_below_target=sheds_below_target
    )
    failed, throttled = quality.ratios(report)
    memory = structs.replace(
        memory,
        report=report,
        reported_at_ms=at_ms,
        mix=mix,
        rate_per_slot=trusted,
        rate_per_slot_low=low,
        utilisation=used,
        error_ratio=quality.smooth(memory.error_ratio, failed, span_s),
        throttled_ratio=quality.smooth(memory.throttled_ratio, throttled, span_s),
        retry_after_ms=_retry_after_ms(memory, report, at_ms),
        service_ms=_service(memory, report, used, span_s),
    )
    arrived = report.arrived.tokens_per_s if report.arrived is not None else None
    return correct(memory, arrived, span_s)


def _service(memory: DeploymentMemory, report: DeploymentReport, used: float | None, span_s: float) -> Tracker:
    ttft_ms = report.ttft_ms.p50 if report.ttft_ms is not None else None
    if ttft_ms is None or used is None or used >= UNLOADED or (report.waiting or 0.0) > 0:
        return memory.service_ms
    return observe(memory.service_ms, ttft_ms, span_s, SERVICE_BAND)


def _retry_after_ms(memory: DeploymentMemory, report: DeploymentReport, at_ms: int) -> int:
    """The later deadline stands."""
    asked = at_ms + round(1000 * report.retry_after_s) if report.retry_after_s else 0
    return max(memory.retry_after_ms, asked)
