"""The policy's `dns` section as a tree of names: which zone a name is in, and what stands there (RFC 1034, 4592, 8020).

Every name between a zone's apex and a name of the policy exists, if only as an empty one, so that a resolver which
walks down label by label never meets an NXDOMAIN above something that exists.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address

from director.core.policy import DnsName, DnsZone, Policy
from director.dns.rdata import caa_record
from director.dns.wire import NAME_BYTES_MAX, name_from_text, parent

SOA_REFRESH_S = 14_400
SOA_RETRY_S = 3600
SOA_EXPIRE_S = 1_209_600
"""Nobody transfers these zones, so nobody acts on these three; they are what checkers of zones expect to see."""
_STAR = b"\x01*"


class Node:
    """One existing name. Without anything set it is an empty non-terminal: it exists and has no data."""

    __slots__ = ("addresses", "apex", "caa", "name", "route")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.apex = False
        self.route: DnsName | None = None
        self.addresses: tuple[bytes, ...] = ()
        """A nameserver's own addresses, 4 or 16 bytes each."""
        self.caa: tuple[bytes, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it has no data of its own. CAA stands at names with a route alone."""
        return not (self.apex or self.route or self.addresses)


class Zone:
    """An apex, the names under it, and the data of its SOA and NS records."""

    def __init__(self, apex_text: str, policy: DnsZone) -> None:
        self.text = apex_text.rstrip(".").lower()
        """The label of metrics."""
        self.apex = name_from_text(apex_text)
        self.ttl_s = policy.ttl_s
        self.negative_ttl_s = min(policy.negative_ttl_s, policy.ttl_s)
        self.nameservers = tuple(name_from_text(host) for host in policy.nameservers)
        self.hostmaster = _mailbox(policy.hostmaster, self.apex)
        self.nodes: dict[bytes, Node] = {}
        self.unusable: list[str] = []
        """What the policy asks for and DNS cannot say; the rest of the zone is served."""
        self._node(self.apex).apex = True
        for relative, name in policy.names.items():
            self._add_name(relative, name)
        for host, addresses in policy.nameservers.items():
            self._add_nameserver(host, addresses)

    def soa_numbers(self, serial: int) -> bytes:
        """The fixed part of an SOA. The serial is a plan's epoch, modulo 2^32 (RFC 1982)."""
        return struct.pack("!5I", serial & 0xFFFFFFFF, SOA_REFRESH_S, SOA_RETRY_S, SOA_EXPIRE_S, self.negative_ttl_s)

    def holds(self, name: bytes) -> bool:
        """Whether a name is at or under the apex."""
        while name != self.apex:
            if name == b"\0":
                return False
            name = parent(name)
        return True

    def find(self, name: bytes) -> Node | None:
        """What stands at a lower-case name of this zone, by itself or by a wildcard; None: the name does not exist."""
        found = self.nodes.get(name)
        if found is not None:
            return found
        encloser = parent(name)
        while encloser not in self.nodes:
            encloser = parent(encloser)
        return self.nodes.get(_STAR + encloser)

    def delegate(self, apex: bytes) -> None:
        """A zone of its own begins below this one: its name exists here, with nothing that we would say."""
        self._node(apex)

    def _add_name(self, relative: str, name: DnsName) -> None:
        try:
            at = self.apex if relative == "@" else name_from_text(relative)[:-1] + self.apex
            caa = tuple(caa_record(text) for text in name.caa)
            node = self._node(_checked(at))
            node.route, node.caa = name, caa
        except ValueError as error:
            self.unusable.append(f"{relative}: {error}")

    def _add_nameserver(self, host: str, addresses: tuple[str, ...]) -> None:
        name = name_from_text(host)
        if self.holds(name):
            self._node(name).addresses = tuple(ip_address(a).packed for a in addresses)

    def _node(self, name: bytes) -> Node:
        """The node of a name at or under the apex; everything between comes into being with it."""
        at = name
        while at not in self.nodes:
            self.nodes[at] = Node(at)
            if at == self.apex:
                break
            at = parent(at)
        return self.nodes[name]


def _checked(wire: bytes) -> bytes:
    """A name joined from two parts, if it is not too long. Raises ValueError."""
    if len(wire) > NAME_BYTES_MAX:
        raise ValueError(f"the whole name is longer than {NAME_BYTES_MAX} bytes")
    return wire


def _mailbox(address: str | None, apex: bytes) -> bytes:
    """`dns.admin@example.com` as a name: dots before the @ stay inside the first label."""
    if address is None:
        return b"\x0ahostmaster" + apex
    if "@" not in address:
        return name_from_text(address)
    user, _, domain = address.partition("@")
    raw = user.encode("ascii", "replace")[:63]
    return bytes((len(raw),)) + raw.lower() + name_from_text(domain)


class ZoneTree:
    """All zones of a policy."""

    def __init__(self, policy: Policy) -> None:
        self.zones: dict[bytes, Zone] = {}
        self.unusable: list[str] = []
        for apex, zone_policy in policy.dns.items():
            try:
                zone = Zone(apex, zone_policy)
            except ValueError as error:
                self.unusable.append(f"{apex}: {error}")
                continue
            self.unusable += [f"{apex}: {why}" for why in zone.unusable]
            self.zones[zone.apex] = zone
        for zone in self.zones.values():
            above = self.zone_of(zone.apex, above=True)
            if above is not None and above is not zone:
                # A delegation exists in the zone above, where the question for its DS is asked.
                above.delegate(zone.apex)

    def zone_of(self, name: bytes, *, above: bool = False) -> Zone | None:
        """The zone with the longest apex that holds a lower-case name. `above`: not the one whose apex it is.

        A DS record stands in the zone above a delegation (RFC 4035, 3.1.4.1).
        """
        if above and name != b"\0" and (found := self.zone_of(parent(name))) is not None:
            return found
        while True:
            zone = self.zones.get(name)
            if zone is not None:
                return zone
            if name == b"\0":
                return None
            name = parent(name)
