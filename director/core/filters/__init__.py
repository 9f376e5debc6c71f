"""Hard filters: each answers a `Rejection` or None. A filter never ranks, and a rank never excludes.

The order is the order in which an operator wants to hear of them: what the law says, what the tenant says, what is
served, what is reachable, what an operator did, what the region does. The first that rejects speaks.
`excluded` is not here: it belongs to one request, and acts at the pick.
"""

from __future__ import annotations

from collections.abc import Callable

from director.core.decision import Rejection
from director.core.filters import availability, breaker, distance, freshness, operators, readiness, residency, tenant
from director.core.filters.candidate import Candidate, RouteContext

Filter = Callable[[Candidate, RouteContext], Rejection | None]
StateFilter = Callable[[Candidate, RouteContext | None], Rejection | None]

BY_RULE: tuple[Filter, ...] = (residency.reject, tenant.reject)
"""Look at the region's policy and the route's rules alone."""
BY_SERVICE: tuple[Filter, ...] = (
    freshness.reject_unseen,
    availability.reject_model,
    availability.reject_version,
    availability.reject_adapter,
    distance.reject,
)
"""Look at what is served, and how far away."""
BY_STATE: tuple[StateFilter, ...] = (
    operators.reject_down,
    operators.reject_draining,
    freshness.reject_lost,
    readiness.reject_not_ready,
    readiness.reject_unhealthy,
    breaker.reject,
)
"""Look at the deployment as it is, whatever the route: asked once a plan."""
FILTERS: tuple[Filter, ...] = (*BY_RULE, *BY_SERVICE, *BY_STATE)


def first_rejection(candidate: Candidate, route: RouteContext) -> Rejection | None:
    """The first filter's word, or None for a candidate that may be used."""
    for reject in FILTERS:
        rejection = reject(candidate, route)
        if rejection is not None:
            return rejection
    return None


__all__ = ["BY_RULE", "BY_SERVICE", "BY_STATE", "FILTERS", "Candidate", "Filter", "RouteContext", "first_rejection"]
