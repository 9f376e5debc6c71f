"""What an operator did to a region, and what a deployment says of its own draining."""

from __future__ import annotations

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext


def reject_down(candidate: Candidate, route: RouteContext | None) -> Rejection | None:
    """Refuse regions that an operator took out. Permanent until an operator brings them back."""
    mark = candidate.observed.operator
    if mark is not None and mark.kind == "down":
        return Rejection("operators", "admin_down", True, f"taken out by {mark.who}: {mark.reason}")
    return None


def reject_draining(candidate: Candidate, route: RouteContext | None) -> Rejection | None:
    """Refuse new sessions in regions and deployments that drain. Transient: a drain ends."""
    mark = candidate.observed.operator
    if mark is not None and mark.kind == "drain":
        return Rejection("operators", "draining", False, f"drained by {mark.who}: {mark.reason}")
    if candidate.deployment is not None and candidate.deployment.state == "draining":
        return Rejection("operators", "draining", False, "the deployment says that it drains")
    return None
