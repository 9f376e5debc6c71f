"""Regions that a tenant's policy denies."""

from __future__ import annotations

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext


def reject(candidate: Candidate, route: RouteContext) -> Rejection | None:
    """Refuse denied regions, in overflow and last resort alike. Permanent for this request."""
    if candidate.region in route.tenant.deny_regions:
        return Rejection("tenant", "tenant_denied", True, "the tenant's policy denies this region")
    return None
