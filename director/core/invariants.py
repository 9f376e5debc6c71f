"""What must hold for every plan. Run in tests, in the simulator, and before each publish."""

from __future__ import annotations

from math import isfinite

from director.core.errors import InvariantBroken
from director.core.plan import DeploymentPlan, Plan
from director.core.policy import Policy


def check_invariants(plan: Plan, policy: Policy) -> None:
    """Raise `InvariantBroken` with the deployment and the figure; answer nothing when all is well."""
    _require(plan.epoch > plan.previous, f"epoch {plan.epoch} does not follow {plan.previous}")
    regions = {r.region: r for r in plan.regions}
    _require(len(regions) == len(plan.regions), "a region stands twice")
    _require(set(regions) <= set(policy.regions), "a region that the policy does not have")
    keys = {d.key for d in plan.deployments}
    _require(len(keys) == len(plan.deployments), "a deployment stands twice")
    for d in plan.deployments:
        _require(d.region in regions, f"{d.key}: its region is not in the plan")
        _check_deployment(d)
        region = regions[d.region]
        out = region.freshness in ("lost", "unseen") or region.operator is not None or d.breaker == "open"
        if out:
            takes = d.admit_home > 0 or d.admit_captive > 0 or d.admit_overflow or d.admit_relief or d.admit_overload
            _require(not takes, f"{d.key}: is out and admits")


def _check_deployment(d: DeploymentPlan) -> None:
    figures = (
        d.service_ms,
        d.capacity_tokens_per_s,
        d.capacity_well_tokens_per_s,
        d.offered_tokens_per_s,
        d.captive_tokens_per_s,
        d.pinned_tokens_per_s,
        d.headroom_tokens_per_s,
    )
    _require(all(isfinite(x) and x >= 0 for x in figures), f"{d.key}: a figure is negative or not finite: {figures}")
    rounds = (*d.admit_overflow, *d.admit_relief, *d.admit_overload)
    ratios = (d.admit_captive, d.admit_home, d.release, d.quality, *rounds)
    _require(all(0 <= x <= 1 for x in ratios), f"{d.key}: a ratio outside 0..1: {ratios}")
    _require(d.admit_home >= 0.9999 or not d.admit_overflow, f"{d.key}: sheds and takes guests")
    _require(
        d.breaker == "closed" or not (d.admit_overflow or d.admit_relief or d.admit_overload),
        f"{d.key}: guests on trial",
    )
    _require((d.breaker == "open") == (d.breaker_until_ms is not None), f"{d.key}: an open period without an end")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantBroken(otherwise)
