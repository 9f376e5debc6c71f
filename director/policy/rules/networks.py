"""Client networks are networks, and none is claimed twice. Prefixes inside one another are fine: the longest wins."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING

from director.core.policy import DEFAULT_ZONE
from director.core.zones import canonical_network
from director.policy.draft import Finding
from director.policy.problem import dotted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.policy.draft import Draft
    from director.policy.problem import Path

_COUNTRY = re.compile(r"[A-Z]{2}")


def check(draft: Draft) -> Iterator[Finding]:
    """Networks and countries of all zones against one another."""
    claimed: dict[str, Path] = {}
    for zone, entry in draft.policy.client_zones.items():
        if zone == DEFAULT_ZONE:
            message = "is the zone of clients that no other zone claims, and cannot be described"
            yield Finding(("client_zones", zone), message, "another name; rtt_ms may have a row default")
        for path, text in draft.indexed(("client_zones", zone, "networks"), entry.networks):
            yield from _network(path, text, claimed)
        for path, text in draft.indexed(("client_zones", zone, "countries"), entry.countries):
            if not _COUNTRY.fullmatch(text):
                suggestion = text.upper() if _COUNTRY.fullmatch(text.upper()) else ""
                yield Finding(path, f"{shown(text)} is no country code", "two capital letters (ISO 3166)", suggestion)
            else:
                yield from _claim(path, text, claimed)
        if entry.countries and draft.policy.geoip is None:
            message = "has no effect without geoip"
            yield Finding(("client_zones", zone, "countries"), message, "geoip, or networks", warning=True)


def _network(path: Path, text: str, claimed: dict[str, Path]) -> Iterator[Finding]:
    try:
        yield from _claim(path, str(canonical_network(text)), claimed)
    except ValueError:
        try:
            whole = str(ip_network(text, strict=False))
        except ValueError:
            yield Finding(path, f"{shown(text)} is no network", "an IPv4 or IPv6 prefix such as 203.0.113.0/24")
        else:
            yield Finding(path, f"{shown(text)} has bits set beyond its prefix length", "a network", whole)


def _claim(path: Path, what: str, claimed: dict[str, Path]) -> Iterator[Finding]:
    first = claimed.setdefault(what, path)
    if first is not path:
        yield Finding(path, f"{what} is claimed twice; first by {dotted(first)}", "each once")
