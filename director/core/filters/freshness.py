"""Regions that we hear nothing of. Unknown never looks idle."""

from __future__ import annotations

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext


def reject_unseen(candidate: Candidate, route: RouteContext | None) -> Rejection | None:
    """Refuse regions that have never reported: what they serve is unknown. Transient: a report may come."""
    if candidate.deployment is None and candidate.observed.freshness == "unseen":
        return Rejection("freshness", "lost", False, "has never reported")
    return None


def reject_lost(candidate: Candidate, route: RouteContext | None) -> Rejection | None:
    """Refuse regions whose last report is older than `lost_after_s`. Transient."""
    if candidate.observed.freshness in ("lost", "unseen"):
        return Rejection("freshness", "lost", False, "no report for too long")
    return None
