"""Where a tenant's data may be processed is always said, never contradicts itself, and leaves a region to go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.core.filters.residency import permits
from director.policy.draft import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.core.policy import Policy, Residency, Tenant
    from director.policy.draft import Draft
    from director.policy.problem import Path


def check(draft: Draft) -> Iterator[Finding]:
    """A choice, free of contradiction, that some region meets."""
    for name, tenant in draft.policy.tenants.items():
        at: Path = ("tenants", name)
        if not draft.sound(at):
            continue
        faults = list(_choice(draft, (*at, "residency"), tenant.residency))
        yield from faults
        if not faults and draft.policy.regions and not permitted_regions(draft.policy, tenant):
            yield Finding(at, "no region may serve this tenant: every request is refused", warning=True)
    for name, region in draft.policy.regions.items():
        if not region.jurisdictions and not draft.given(("regions", name, "jurisdictions")):
            message = "has no jurisdictions: no tenant with a residency rule ever reaches it"
            yield Finding(("regions", name), message, warning=True)


def _choice(draft: Draft, at: Path, residency: Residency) -> Iterator[Finding]:
    if residency.anywhere:
        if draft.given((*at, "allow")):
            yield Finding((*at, "allow"), "contradicts anywhere", "one of the two")
        return
    if not residency.allow:
        yield Finding(at, "says nowhere to go", "allow: [jurisdictions], or anywhere")
    for path, tag in draft.indexed((*at, "forbid"), residency.forbid):
        if tag in residency.allow:
            yield Finding(path, f"{tag} is allowed and forbidden", "one of the two")


def permitted_regions(policy: Policy, tenant: Tenant) -> list[str]:
    """Regions that residency and denials leave, sorted."""
    return sorted(
        name
        for name, region in policy.regions.items()
        if name not in tenant.deny_regions and permits(tenant.residency, region.jurisdictions)
    )
