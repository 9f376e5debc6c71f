"""Deployments whose circuit breaker is open."""

from __future__ import annotations

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext


def reject(candidate: Candidate, route: RouteContext | None) -> Rejection | None:
    """Refuse open breakers. Transient: each open period ends at a time that is known."""
    if candidate.deployment is not None and candidate.deployment.breaker == "open":
        return Rejection("breaker", "breaker_open", False, "too many failures; the breaker is open")
    return None
