"""One address leads to one region. Where two share one, whoever may enter the first enters the second too."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from director.policy.draft import Finding
from director.policy.rules.residency import permitted_regions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.core.policy import Addresses, Region
    from director.policy.draft import Draft
    from director.policy.problem import Path


def check(draft: Draft) -> Iterator[Finding]:
    """An error where some tenant may enter one of the two and not the other; else a warning."""
    policy = draft.policy
    permitted = {
        name: permitted_regions(policy, tenant)
        for name, tenant in policy.tenants.items()
        if draft.sound(("tenants", name))
    }
    first: dict[str, str] = {}
    for name, region in policy.regions.items():
        for path, destination in _destinations(draft, name, region):
            other = first.setdefault(destination, name)
            if other == name:
                continue
            torn = sorted(tenant for tenant, regions in permitted.items() if (name in regions) != (other in regions))
            message = f"{destination} is also {other}'s"
            if torn:
                message += f", and {torn[0]} may enter only one of the two"
            yield Finding(path, message, "an address of its own", warning=not torn)


def canonical(addresses: Addresses) -> list[tuple[str, int, str]]:
    """(kind, index, destination in one spelling) of every address that is one."""
    found: list[tuple[str, int, str]] = []
    for kind, texts in (("A", addresses.A), ("AAAA", addresses.AAAA)):
        for index, text in enumerate(texts):
            try:
                found.append((kind, index, str(ip_address(text))))
            except ValueError:
                continue
    if addresses.CNAME is not None:
        found.append(("CNAME", 0, addresses.CNAME.lower().rstrip(".")))
    return found


def leads_to(region: Region) -> set[str]:
    """Every address and host name, in one spelling, that is known to lead to a region: its endpoint's host as well."""
    found = {destination for _, _, destination in canonical(region.addresses)}
    try:
        host = urlsplit(region.endpoint).hostname or ""
    except ValueError:
        return found
    try:
        return found | {str(ip_address(host))}
    except ValueError:
        return found | {host.rstrip(".")} - {""}


def _destinations(draft: Draft, name: str, region: Region) -> Iterator[tuple[Path, str]]:
    yield ("regions", name, "endpoint"), region.endpoint.rstrip("/")
    for kind, _, destination in canonical(region.addresses):
        yield ("regions", name, "addresses", kind), destination
