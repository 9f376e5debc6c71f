"""What a name may answer: its tenant's regions alone, in trouble too, and something that DNS allows at that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.policy.draft import Finding
from director.policy.rules.residency import permitted_regions
from director.policy.rules.shared_addresses import canonical, leads_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.core.policy import DnsName, Tenant
    from director.policy.draft import Draft
    from director.policy.problem import Path


def check(draft: Draft) -> Iterator[Finding]:
    """Each name against its tenant. A name whose tenant is unknown has a problem of its own."""
    for apex, zone in draft.policy.dns.items():
        for label, entry in zone.names.items():
            at: Path = ("dns", apex, "names", label)
            yield from _when_none(draft, at, entry)
            tenant = draft.policy.tenants.get(entry.tenant)
            if tenant is not None and draft.sound(("tenants", entry.tenant)):
                yield from _fallback_residency(draft, at, entry, tenant)
                yield from _regions(draft, at, label, entry, tenant)


def _when_none(draft: Draft, at: Path, entry: DnsName) -> Iterator[Finding]:
    if entry.when_none == "fallback" and entry.fallback.empty and draft.sound((*at, "fallback")):
        yield Finding((*at, "when_none"), "fallback has nothing to fall back to", "fallback: {A: […]} beside it")
    if entry.when_none != "fallback" and not entry.fallback.empty:
        message = f"is never used: when_none is {entry.when_none}"
        yield Finding((*at, "fallback"), message, "when_none: fallback", warning=True)


def _fallback_residency(draft: Draft, at: Path, entry: DnsName, tenant: Tenant) -> Iterator[Finding]:
    """A fallback address is an answer like any other: it must not lead where the tenant may not go."""
    if entry.fallback.empty:
        return
    permitted = permitted_regions(draft.policy, tenant)
    owners: dict[str, list[str]] = {}
    for name, region in draft.policy.regions.items():
        for destination in leads_to(region):
            owners.setdefault(destination, []).append(name)
    for kind, index, destination in canonical(entry.fallback):
        path: Path = (*at, "fallback", kind) if kind == "CNAME" else (*at, "fallback", kind, index)
        regions = owners.get(destination, [])
        for owner in regions:
            if owner not in permitted and draft.sound(("regions", owner)):
                message = f"{destination} is {owner}, which {entry.tenant} may not enter"
                yield Finding(path, message, "an address of " + (" or ".join(permitted) or "no region at all"))
        if not regions and not tenant.residency.anywhere:
            message = f"{destination} belongs to no region: its residency cannot be checked"
            yield Finding(path, message, f"a region's address, as {entry.tenant} has a residency rule", warning=True)


def _regions(draft: Draft, at: Path, label: str, entry: DnsName, tenant: Tenant) -> Iterator[Finding]:
    regions = draft.policy.regions
    permitted = permitted_regions(draft.policy, tenant)
    silent = [name for name in permitted if regions[name].addresses.empty]
    if silent:
        message = f"{', '.join(silent)} may serve it and has no addresses: DNS never answers with it"
        yield Finding(at, message, "addresses there", warning=True)
    aliased = [name for name in permitted if regions[name].addresses.CNAME]
    if entry.fallback.CNAME:
        aliased.append("its fallback")
    if not aliased:
        return
    if label == "@":
        yield Finding(
            at, f"{aliased[0]} is a CNAME, which cannot stand at the apex", "addresses there, or a name below"
        )
    if entry.txt or entry.caa or entry.https:
        other = "txt" if entry.txt else "caa" if entry.caa else "https"
        message = f"cannot stand beside a CNAME, as {aliased[0]} gives one"
        yield Finding((*at, other), message, "a name whose regions have addresses")
