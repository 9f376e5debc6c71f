"""Where a request may be processed. Fails closed: whatever is not plainly allowed is refused."""

from __future__ import annotations

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext
from director.core.policy import Residency


def reject(candidate: Candidate, route: RouteContext) -> Rejection | None:
    """Refuse regions outside the tenant's rule, narrowed by the request. Permanent for this request."""
    jurisdictions = candidate.policy.jurisdictions if candidate.policy is not None else ()
    if not permits(route.tenant.residency, jurisdictions):
        return Rejection("residency", "residency", True, _said(jurisdictions, "the tenant's rule"))
    if route.residency and not any(tag in route.residency for tag in jurisdictions):
        return Rejection("residency", "residency", True, _said(jurisdictions, "the request's own rule"))
    return None


def permits(rule: Residency, jurisdictions: tuple[str, ...]) -> bool:
    """One jurisdiction in `allow` and none in `forbid`. A rule that says nothing permits nothing."""
    if any(tag in rule.forbid for tag in jurisdictions):
        return False
    if rule.anywhere:
        # `forbid` without `allow` still needs to know where the region is.
        return bool(jurisdictions) or not rule.forbid
    return any(tag in rule.allow for tag in jurisdictions)


def _said(jurisdictions: tuple[str, ...], rule: str) -> str:
    where = ", ".join(jurisdictions) if jurisdictions else "no jurisdiction"
    return f"{where} does not meet {rule}"
