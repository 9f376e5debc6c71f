"""Zones have names, servers, and no claim on one another's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.policy.domain_names import absolute, is_below, name_fault
from director.policy.draft import Finding
from director.policy.problem import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.core.policy import DnsZone
    from director.policy.draft import Draft
    from director.policy.problem import Path


def check(draft: Draft) -> Iterator[Finding]:
    """Each zone by itself, then every pair of one inside the other."""
    zones = draft.policy.dns
    for apex, zone in zones.items():
        if fault := name_fault(apex):
            yield Finding(("dns", apex), f"{shown(apex)} {fault.message}", fault.expected, fault.suggestion)
        yield from _nameservers(draft, apex, zone)
        if zone.hostmaster is not None and not _is_mailbox(zone.hostmaster):
            yield Finding(
                ("dns", apex, "hostmaster"), f"{shown(zone.hostmaster)} is no mail address", "user@example.com"
            )
    for apex, zone in zones.items():
        inner = [other for other in zones if other != apex and is_below(other, apex)]
        for label in zone.names:
            for other in inner:
                if is_below(absolute(label, apex), other):
                    message = f"stands in the zone {other}, which answers for it"
                    yield Finding(("dns", apex, "names", label), message, f"an entry under dns.{other}")


def _nameservers(draft: Draft, apex: str, zone: DnsZone) -> Iterator[Finding]:
    at: Path = ("dns", apex, "nameservers")
    if not zone.nameservers and draft.sound(at):
        yield Finding(at, "names no server", "host: [addresses]")
    for host, addresses in zone.nameservers.items():
        path: Path = (*at, host)
        if fault := name_fault(host):
            yield Finding(path, f"{shown(host)} {fault.message}", fault.expected, fault.suggestion)
        elif is_below(host, apex) and not addresses and draft.sound(path):
            yield Finding(
                path, "has no address: nobody outside could find it", "its addresses, as it is inside the zone"
            )


def _is_mailbox(text: str) -> bool:
    user, at, host = text.partition("@")
    if not at:
        return name_fault(text) is None
    return bool(user) and user.isascii() and user.isprintable() and " " not in user and name_fault(host) is None
