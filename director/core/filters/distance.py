"""Regions that are too far away for the objective."""

from __future__ import annotations

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext


def reject(candidate: Candidate, route: RouteContext) -> Rejection | None:
    """Refuse round trips above `max_rtt_ms`, where the client's zone is known. Permanent for this request."""
    rtt_ms_max = route.objective.max_rtt_ms
    if rtt_ms_max is not None and route.zone_known and candidate.rtt_ms > rtt_ms_max:
        detail = f"round trip {candidate.rtt_ms:.0f} ms exceeds {rtt_ms_max:.0f} ms"
        return Rejection("distance", "too_far", True, detail)
    return None
