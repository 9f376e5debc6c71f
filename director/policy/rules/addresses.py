"""Addresses are of their family, host names are names, endpoints are URLs that fit in a header."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from director.policy.domain_names import name_fault
from director.policy.draft import Finding
from director.policy.problem import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.core.policy import Addresses
    from director.policy.draft import Draft
    from director.policy.problem import Path

_FAMILY = {"A": 4, "AAAA": 6}


def check(draft: Draft) -> Iterator[Finding]:
    """Everything in a policy that something is sent to."""
    for name, region in draft.policy.regions.items():
        at: Path = ("regions", name)
        yield from _url((*at, "endpoint"), region.endpoint, query=False)
        yield from _addresses(draft, (*at, "addresses"), region.addresses)
        if region.probe is not None:
            yield from _url((*at, "probe", "url"), region.probe.url, query=True)
    for apex, zone in draft.policy.dns.items():
        for label, entry in zone.names.items():
            yield from _addresses(draft, ("dns", apex, "names", label, "fallback"), entry.fallback)
        for host, addresses in zone.nameservers.items():
            for path, text in draft.indexed(("dns", apex, "nameservers", host), addresses):
                yield from address_faults(path, text, None)


def _addresses(draft: Draft, at: Path, addresses: Addresses) -> Iterator[Finding]:
    for kind, texts in (("A", addresses.A), ("AAAA", addresses.AAAA)):
        seen: set[str] = set()
        for path, text in draft.indexed((*at, kind), texts):
            yield from address_faults(path, text, kind)
            if text in seen:
                yield Finding(path, f"{text} is given twice", "each address once")
            seen.add(text)
    if addresses.CNAME is not None:
        if addresses.A or addresses.AAAA:
            yield Finding((*at, "CNAME"), "stands beside addresses", "either a host name or addresses")
        if fault := name_fault(addresses.CNAME):
            yield Finding((*at, "CNAME"), f"{shown(addresses.CNAME)} {fault.message}", fault.expected, fault.suggestion)


def address_faults(path: Path, text: str, kind: str | None) -> Iterator[Finding]:
    """What is wrong with one address. `kind`: A, AAAA, or None for either family."""
    expected = "an IP address" if kind is None else f"an IPv{_FAMILY[kind]} address"
    try:
        address = ip_address(text)
    except ValueError:
        yield Finding(path, f"{shown(text)} is no address", expected)
        return
    if kind is not None and address.version != _FAMILY[kind]:
        other = "AAAA" if kind == "A" else "A"
        yield Finding(path, f"{text} is an IPv{address.version} address", f"{expected}; this one belongs under {other}")
    elif address.is_unspecified or address.is_multicast:
        yield Finding(path, f"{text} is the address of no host", expected)
    elif isinstance(address, IPv6Address) and (address.ipv4_mapped is not None or address.scope_id is not None):
        yield Finding(path, f"{text} means nothing to another host", expected, str(address.ipv4_mapped or ""))


def _url(path: Path, text: str, *, query: bool) -> Iterator[Finding]:
    expected = "a URL such as https://region.example.net"
    if not text.isascii() or not text.isprintable() or any(mark in text for mark in ' ,"<>\\'):
        yield Finding(path, f"{shown(text)} holds what no URL in a header may", expected)
        return
    try:
        url = urlsplit(text)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable:
        yield Finding(path, f"{shown(text)} is no such URL", expected, "" if "://" in text else f"https://{text}")
    elif url.username is not None or url.password is not None:
        yield Finding(path, "holds a name or password: every client would see it", expected)
    elif url.fragment or (url.query and not query):
        yield Finding(path, f"{shown(text)} has a query or fragment", expected)
