"""Regions that are too far away for the objective."""

from __future__ import annotations

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext


def reject(candidate: Candidate, route: RouteContext) -> Rejection | None:
    """Refuse round trips above `max_rtt_ms`, where the client's zone is known. Permanent for this request."""
    if is_too_far(candidate.rtt_ms, route):
        detail = f"round trip {candidate.rtt_ms:.0f} ms exceeds {route.objective.max_rtt_ms:.0f} ms"
        return Rejection("distance", "too_far", True, detail)
    return None


def is_too_far(rtt_ms: float, route: RouteContext) -> bool:
    """A client in no zone has guessed round trips: nothing is too far for it."""
    rtt_ms_max = route.objective.max_rtt_ms
    return rtt_ms_max is not None and route.zone_known and rtt_ms > rtt_ms_max
