"""Names of a zone are names, fit on the wire, collide with nothing, and their records can be encoded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from director.policy.domain_names import NAME_LENGTH_MAX, absolute, name_fault
from director.policy.draft import Finding
from director.policy.problem import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.core.policy import DnsName
    from director.policy.draft import Draft
    from director.policy.problem import Path

TXT_OCTETS_MAX = 4_000
"""Of one record: an answer of more than a few TCP segments helps nobody."""

_CAA = re.compile(r'(?P<flags>[0-9]{1,3}) (?P<tag>[A-Za-z0-9]{1,15}) "(?P<value>[^"\\]*)"')


def check(draft: Draft) -> Iterator[Finding]:
    """Each name of each zone."""
    for apex, zone in draft.policy.dns.items():
        for label, entry in zone.names.items():
            path: Path = ("dns", apex, "names", label)
            yield from _label(path, label, apex)
            if absolute(label, apex) in zone.nameservers:
                message = "is a nameserver of the zone, with addresses of its own"
                yield Finding(path, message, "another name")
            yield from _records(draft, path, entry)


def _label(path: Path, label: str, apex: str) -> Iterator[Finding]:
    if label == "@":
        return
    if fault := name_fault(label, wildcard=True):
        suggestion = fault.suggestion
        if label.rstrip(".").endswith("." + apex):
            suggestion = label.rstrip(".").removesuffix("." + apex)
        yield Finding(path, f"{shown(label)} {fault.message}", fault.expected, suggestion)
    elif label.endswith("." + apex) or label == apex:
        suggestion = "@" if label == apex else label.removesuffix("." + apex)
        yield Finding(path, "names the zone again: names are relative to it", f"a name below {apex}", suggestion)
    elif len(absolute(label, apex)) > NAME_LENGTH_MAX:
        message = f"has {len(absolute(label, apex))} characters together with the zone"
        yield Finding(path, message, f"at most {NAME_LENGTH_MAX}")


def _records(draft: Draft, at: Path, entry: DnsName) -> Iterator[Finding]:
    for path, text in draft.indexed((*at, "txt"), entry.txt):
        if len(text.encode()) > TXT_OCTETS_MAX:
            yield Finding(path, f"has {len(text.encode()):,} octets", f"at most {TXT_OCTETS_MAX:,}")
    for path, text in draft.indexed((*at, "caa"), entry.caa):
        match = _CAA.fullmatch(text)
        if match is None or int(match["flags"]) > 255 or not match["value"].isascii():
            yield Finding(
                path, f"{shown(text)} is no CAA record", 'flags 0..255, a tag, a value: 0 issue "ca.example.net"'
            )
