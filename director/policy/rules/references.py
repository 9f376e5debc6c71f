"""Every name that is used exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.core.policy import DEFAULT_ZONE
from director.policy.draft import Finding
from director.policy.problem import near_miss, one_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.policy.draft import Draft
    from director.policy.problem import Path

_SINGULAR = {
    "regions": "region",
    "models": "model",
    "tenants": "tenant",
    "objectives": "objective",
    "client_zones": "client zone",
    "jurisdictions": "jurisdiction",
}


def check(draft: Draft) -> Iterator[Finding]:
    """Each use of a name against the section that declares it."""
    for path, section, name in _uses(draft):
        names = draft.names(section)
        if section == "client_zones":
            names = (names or frozenset()) | {DEFAULT_ZONE}
        if names is not None and name not in names:
            message = f"there is no {_SINGULAR[section]} {shown(name)}"
            yield Finding(path, message, one_of(names), near_miss(name, names))


def _uses(draft: Draft) -> Iterator[tuple[Path, str, str]]:
    """(where, the section that must declare it, the name)."""
    yield from _uses_of_regions(draft)
    yield from _uses_of_tenants(draft)
    policy = draft.policy
    for name, model in policy.models.items():
        yield ("models", name, "objective"), "objectives", model.objective
    if policy.default_tenant is not None:
        yield ("default_tenant",), "tenants", policy.default_tenant
    for section in ("rtt_ms", "egress_price_per_mtok"):
        for zone, row in getattr(policy, section).items():
            yield (section, zone), "client_zones", zone
            for region in row:
                yield (section, zone, region), "regions", region
    for apex, dns_zone in policy.dns.items():
        for label, entry in dns_zone.names.items():
            yield ("dns", apex, "names", label, "tenant"), "tenants", entry.tenant
            yield ("dns", apex, "names", label, "model"), "models", entry.model


def _uses_of_regions(draft: Draft) -> Iterator[tuple[Path, str, str]]:
    for name, region in draft.policy.regions.items():
        for path, jurisdiction in draft.indexed(("regions", name, "jurisdictions"), region.jurisdictions):
            yield path, "jurisdictions", jurisdiction
        for model in region.capacity_max:
            yield ("regions", name, "capacity_max", model), "models", model


def _uses_of_tenants(draft: Draft) -> Iterator[tuple[Path, str, str]]:
    for name, tenant in draft.policy.tenants.items():
        at: Path = ("tenants", name)
        for path, jurisdiction in draft.indexed((*at, "residency", "allow"), tenant.residency.allow):
            yield path, "jurisdictions", jurisdiction
        for path, jurisdiction in draft.indexed((*at, "residency", "forbid"), tenant.residency.forbid):
            yield path, "jurisdictions", jurisdiction
        for path, region in draft.indexed((*at, "deny_regions"), tenant.deny_regions):
            yield path, "regions", region
        if tenant.objective is not None:
            yield (*at, "objective"), "objectives", tenant.objective
