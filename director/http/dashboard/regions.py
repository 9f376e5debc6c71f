"""Rows of the fleet: each region, and each of its deployments, from the plan and the newest reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from director.core.capacity import utilisation
from director.core.observations import OperatorSetting
from director.core.plan import DeploymentKey, DeploymentPlan, Plan, RegionPlan
from director.core.policy import Policy, Region
from director.core.report import DeploymentReport
from director.http.dashboard.live import Figures

State = Literal[
    "serving", "shedding", "half_open", "breaker_open", "not_ready", "unhealthy", "degraded", "stale", "lost", "unseen",
    "draining", "down", "empty",
]  # fmt: skip
TROUBLE: dict[State, int] = {
    "down": 9, "lost": 10, "unhealthy": 8, "breaker_open": 8, "not_ready": 7, "stale": 6, "shedding": 6, "draining": 5,
    "half_open": 4, "degraded": 4, "unseen": 2, "empty": 1, "serving": 0,
}  # fmt: skip
"""How far up a state belongs where trouble is sorted first."""
SHED_MIN = 0.005
"""Below half a percent nothing is shed that anybody would see."""


class DeploymentRow(Struct, frozen=True):
    """One deployment: what the plan publishes, and what was last reported. None is unknown."""

    plan: DeploymentPlan
    report: DeploymentReport | None
    utilisation: float | None
    error_ratio: float | None

    @property
    def demand(self) -> float:
        return self.plan.offered_tokens_per_s + self.plan.pinned_tokens_per_s

    @property
    def demand_ratio(self) -> float | None:
        capacity = self.plan.capacity_tokens_per_s
        return self.demand / capacity if capacity > 0 else None

    @property
    def overflow(self) -> float:
        """What guests are admitted in the first round."""
        return self.plan.admit_overflow[0] if self.plan.admit_overflow else 0.0


class RegionRow(Struct, frozen=True):
    """One region. Ratios over its deployments are weighted by capacity; None is unknown."""

    region: str
    policy: Region
    plan: RegionPlan
    deployments: tuple[DeploymentRow, ...]
    settings: tuple[OperatorSetting, ...]
    state: State
    report_age_ms: int | None
    capacity: float
    demand: float
    utilisation: float | None
    headroom: float | None
    admit_home: float | None
    admit_overflow: float | None
    home_tokens: float | None
    guest_tokens: float | None
    share: float | None
    """Of what is decided in the fleet; None where nothing is."""
    guest_share: float | None
    ttft_ms: float | None
    """p95, the worst deployment's."""
    error_ratio: float | None
    breakers_open: int
    breakers_half_open: int

    @property
    def demand_ratio(self) -> float | None:
        return self.demand / self.capacity if self.capacity > 0 else None


class Taken(Struct):
    """Tokens/s that a region was given: as a home, and as a host of guests."""

    home: float = 0.0
    guests: float = 0.0


def region_rows(plan: Plan, policy: Policy, figures: Figures, taken: dict[str, Taken], now_ms: int) -> list[RegionRow]:
    """One row for each region of the policy, in its order."""
    observed = {one.region: one for one in plan.regions}
    served: dict[str, list[DeploymentRow]] = {}
    for d in plan.deployments:
        served.setdefault(d.region, []).append(_deployment(d, figures.deployments.get(d.key)))
    total = sum(one.home + one.guests for one in taken.values())
    rows = []
    for name, region in policy.regions.items():
        seen = observed.get(name) or RegionPlan(name, "unseen")
        settings = tuple(one for one in figures.settings if one.region == name)
        received = figures.reports.get(name)
        report_age_ms = None if received is None else max(0, now_ms - received.received_at_ms)
        here = taken.get(name, Taken()) if figures.known else None
        rows.append(_region(name, region, seen, tuple(served.get(name, ())), settings, report_age_ms, here, total))
    return rows


def _region(
    name: str,
    region: Region,
    seen: RegionPlan,
    deployments: tuple[DeploymentRow, ...],
    settings: tuple[OperatorSetting, ...],
    report_age_ms: int | None,
    taken: Taken | None,
    total: float,
) -> RegionRow:
    plans = [one.plan for one in deployments]
    capacity = sum(one.capacity_tokens_per_s for one in plans)
    used = _weighted((one.utilisation, one.plan.capacity_tokens_per_s) for one in deployments)
    given = taken is not None and total > 0
    return RegionRow(
        region=name,
        policy=region,
        plan=seen,
        deployments=deployments,
        settings=settings,
        state=state_of(seen, plans),
        report_age_ms=report_age_ms,
        capacity=capacity,
        demand=sum(one.demand for one in deployments),
        utilisation=used,
        headroom=None if used is None else capacity * max(0.0, 1.0 - used),
        admit_home=_weighted((one.admit_home, one.capacity_tokens_per_s) for one in plans),
        admit_overflow=_weighted((one.overflow, one.plan.capacity_tokens_per_s) for one in deployments),
        home_tokens=None if taken is None else taken.home,
        guest_tokens=None if taken is None else taken.guests,
        share=(taken.home + taken.guests) / total if taken is not None and given else None,
        guest_share=taken.guests / total if taken is not None and given else None,
        ttft_ms=max((p for one in deployments if (p := _ttft(one.report)) is not None), default=None),
        error_ratio=_weighted((one.error_ratio, one.plan.capacity_tokens_per_s) for one in deployments),
        breakers_open=sum(one.breaker == "open" for one in plans),
        breakers_half_open=sum(one.breaker == "half_open" for one in plans),
    )


def state_of(seen: RegionPlan, deployments: Sequence[DeploymentPlan]) -> State:
    """One word for a region: the thing that an operator has to know first."""
    if seen.operator is not None:
        return "down" if seen.operator.kind == "down" else "draining"
    if seen.freshness in ("lost", "unseen"):
        return "lost" if seen.freshness == "lost" else "unseen"
    if "down" in (seen.health, seen.gateway):
        return "unhealthy"
    if not deployments:
        return "empty"
    if all(one.state != "serving" or one.ready_replicas == 0 for one in deployments):
        return "not_ready"
    if any(one.breaker == "open" for one in deployments):
        return "breaker_open"
    if seen.freshness == "stale":
        return "stale"
    if any(one.breaker == "half_open" for one in deployments):
        return "half_open"
    if any(one.admit_home < 1.0 - SHED_MIN for one in deployments):
        return "shedding"
    return "degraded" if "degraded" in (seen.health, seen.gateway) else "serving"


def _deployment(d: DeploymentPlan, report: DeploymentReport | None) -> DeploymentRow:
    used = None if report is None else utilisation(report)
    return DeploymentRow(d, report, used, None if report is None else error_ratio(report))


def error_ratio(report: DeploymentReport) -> float | None:
    """Server errors, timeouts and refused connections ÷ all that ended; clients' own errors never count."""
    errors = report.errors_per_s
    done = None if report.completed is None else report.completed.requests_per_s
    if errors is None or done is None:
        return None
    failed = errors.server + errors.timeout + errors.connect
    return failed / (failed + done) if failed + done > 0 else 0.0


def _ttft(report: DeploymentReport | None) -> float | None:
    return None if report is None or report.ttft_ms is None else report.ttft_ms.p95


def _weighted(pairs: Iterable[tuple[float | None, float]]) -> float | None:
    """The mean of what is known by weight; alike where nothing has a weight."""
    known = [(value, weight) for value, weight in pairs if value is not None]
    if not known:
        return None
    total = sum(weight for _, weight in known)
    if total <= 0:
        return sum(value for value, _ in known) / len(known)
    return sum(value * weight for value, weight in known) / total


def deployments_by_key(plan: Plan) -> dict[DeploymentKey, DeploymentPlan]:
    return {one.key: one for one in plan.deployments}
