"""What a region says of itself: replicas that are ready, and its health."""

from __future__ import annotations

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext


def reject_not_ready(candidate: Candidate, route: RouteContext | None) -> Rejection | None:
    """Refuse deployments without a ready replica, loading or asleep. Transient."""
    deployment = candidate.deployment
    if deployment is None:
        return None
    if deployment.state in ("loading", "asleep"):
        return Rejection("readiness", "no_ready_replicas", False, f"the engines are {deployment.state}")
    if deployment.ready_replicas <= 0:
        return Rejection("readiness", "no_ready_replicas", False, "no replica is ready")
    return None


def reject_unhealthy(candidate: Candidate, route: RouteContext | None) -> Rejection | None:
    """Refuse regions that report themselves, or their gateway, down. Transient."""
    if candidate.observed.health == "down":
        return Rejection("readiness", "unhealthy", False, "the region reports itself down")
    if candidate.observed.gateway == "down":
        return Rejection("readiness", "unhealthy", False, "the region reports its gateway down")
    return None
