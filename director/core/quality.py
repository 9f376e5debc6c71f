"""What errors and backpressure take from a capacity; the breaker is for those that go on.

quality = 1 - error_ratio · error_weight, at least `quality_min`; throttled requests (429, 503) count once, and their
`Retry-After` holds the reduction until it passes. Without samples it goes back to 1.
"""

from __future__ import annotations

from director.core.deadband import weight
from director.core.policy import Objective
from director.core.report import DeploymentReport

ERROR_S = 10.0
"""How long an error is remembered: two or three reports."""
QUALITY_STEP = 0.05
"""Changes smaller than this are not published, but for the way back to exactly 1."""


Ratios = tuple[float | None, float | None]
"""Failed and throttled requests."""


def ratios(report: DeploymentReport) -> Ratios:
    """Failed and throttled requests ÷ requests that ended or were turned away, in this report; None without samples."""
    errors = report.errors_per_s
    if errors is None:
        return None, None
    failed = errors.server + errors.timeout + errors.connect
    completed = report.completed.requests_per_s if report.completed is not None else None
    ended = (completed or 0.0) + failed + errors.throttled
    if ended <= 0:
        return None, None
    return min(1.0, failed / ended), min(1.0, errors.throttled / ended)


def smooth(before: float, sample: float | None, dt_s: float) -> float:
    """Exponential average over `ERROR_S`; no sample counts as none wrong."""
    return before + weight(dt_s, ERROR_S) * ((sample or 0.0) - before) if sample or before else 0.0


def quality(
    published: float, error_ratio: float, throttled_ratio: float, retry_after_ms: int, objective: Objective, now_ms: int
) -> float:
    """The published quality, in [quality_min, 1]; 1 while nothing is wrong."""
    raw, unthrottled = 1.0 - error_ratio * objective.error_weight, 1.0 - throttled_ratio
    raw = max(objective.quality_min, raw if raw < unthrottled else unthrottled)
    if now_ms < retry_after_ms:
        return min(published, raw)
    if raw >= 1.0 - QUALITY_STEP / 5:
        return 1.0
    return raw if abs(raw - published) >= QUALITY_STEP else published
