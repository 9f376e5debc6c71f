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
from director.core.plan import DeploymentPlan, RegionPlan

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


def takes_new_sessions(observed: RegionPlan, deployment: DeploymentPlan) -> bool:
    """Whether a deployment as it is may be sent new sessions, whatever the route: no state filter rejects it.

    The planner admits by this and replicas pick by it: they must not differ.
    """
    candidate = Candidate(deployment.region, None, observed, deployment, 0.0)
    for reject in BY_STATE:  # noqa: SIM110  a generator costs twice this, for each deployment and tick
        if reject(candidate, None) is not None:
            return False
    return True


__all__ = [
    "BY_RULE",
    "BY_SERVICE",
    "BY_STATE",
    "FILTERS",
    "Candidate",
    "Filter",
    "RouteContext",
    "first_rejection",
    "takes_new_sessions",
]
