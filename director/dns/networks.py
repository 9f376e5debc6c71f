"""Client networks: what an answer may depend on, and how far it holds (RFC 7871).

An answer never depends on more of an address than its network: /24 for IPv4, /56 for IPv6, less where the resolver
sends less. The network's text is the key of the pick, so that `session: "203.0.113.0/24"` over HTTP gets the same.
"""

from __future__ import annotations

import socket
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple

from director.core.pick import hash_key
from director.dns.memo import Memo
from director.dns.view import Zones

FAMILY_IPV4: Final = 1
FAMILY_IPV6: Final = 2
ADDRESS_BITS: Final = {FAMILY_IPV4: 32, FAMILY_IPV6: 128}
NETWORK_BITS: Final = {FAMILY_IPV4: 24, FAMILY_IPV6: 56}
NETWORKS_MAX: Final = 20_000
"""Networks remembered, twice that at times; each is some 400 bytes."""
_MAPPED: Final = bytes(10) + b"\xff\xff"


class Scope(IntEnum):
    """What of the client an answer depends on."""

    NOTHING = 0
    ZONE = 1
    NETWORK = 2


class Network:
    """One client network. Compared by identity: `Networks` keeps one object for each."""

    __slots__ = ("key_hash", "scope_bits", "text", "zone")

    def __init__(self, text: str, zone: str, bits: int, zone_bits: int) -> None:
        self.text = text
        self.key_hash = hash_key(text)
        self.zone = zone
        self.scope_bits = _scope_bits(min(bits, zone_bits), bits)
        """How many bits an answer used, by Scope."""


@cache
def _scope_bits(zone_bits: int, bits: int) -> tuple[int, int, int]:
    """One object for all networks that are alike in this."""
    return 0, zone_bits, bits


class Subnet(NamedTuple):
    """The client subnet option of a query, checked."""

    family: int
    source_bits: int
    address: bytes

    def option(self, scope_bits: int) -> bytes:
        """The option data for an answer: family, source and address as they came, and the scope."""
        return bytes((0, self.family, self.source_bits, scope_bits)) + self.address


def read_subnet(data: bytes) -> Subnet | None:
    """Check the data of a client subnet option in a query; None when it is malformed: FORMERR."""
    if len(data) < 4:
        return None
    family = int.from_bytes(data[:2], "big")
    source_bits, scope_bits, address = data[2], data[3], data[4:]
    if scope_bits != 0:
        return None
    if family == 0:
        # No address and no family: how some clients spell "do not use my address".
        return Subnet(0, 0, b"") if source_bits == 0 and not address else None
    if family not in ADDRESS_BITS or source_bits > ADDRESS_BITS[family]:
        return None
    if len(address) != (source_bits + 7) // 8:
        return None
    spare_bits = -source_bits % 8
    if spare_bits and address[-1] & ((1 << spare_bits) - 1):
        return None
    return Subnet(family, source_bits, address)


class Networks:
    """Addresses → networks, for the zones of one policy, which are looked up once for each network."""

    def __init__(self, zones: Zones) -> None:
        self._zones = zones
        self._known: Memo[bytes, Network] = Memo(NETWORKS_MAX)
        self.by_source: Memo[bytes, Network] = Memo(NETWORKS_MAX)

    def of_source(self, source: bytes) -> Network:
        """The network of a resolver's own address: 4 or 16 bytes; an IPv4-mapped address counts as IPv4."""
        found = self.by_source.get(source)
        if found is None:
            address = source[12:] if source.startswith(_MAPPED) else source
            family = FAMILY_IPV4 if len(address) == 4 else FAMILY_IPV6
            found = self._of(family, len(address) * 8, address)
            self.by_source.put(source, found)
        return found

    def of_subnet(self, subnet: Subnet, source: bytes) -> Network:
        """The network that a query speaks for: /0 asks not to use the client's, so the resolver's own counts."""
        if subnet.source_bits == 0:
            return self.of_source(source)
        return self._of(subnet.family, subnet.source_bits, subnet.address)

    def _of(self, family: int, given_bits: int, address: bytes) -> Network:
        bits = min(given_bits, NETWORK_BITS[family])
        head = address[: (bits + 7) // 8]
        key = bytes((family, bits)) + head
        found = self._known.get(key)
        if found is None:
            found = self._make(family, bits, head)
            self._known.put(key, found)
        return found

    def _make(self, family: int, bits: int, head: bytes) -> Network:
        size = ADDRESS_BITS[family] // 8
        value = int.from_bytes(head.ljust(size, b"\0"), "big")
        spare_bits = size * 8 - bits
        value = value >> spare_bits << spare_bits
        packed = value.to_bytes(size, "big")
        text = socket.inet_ntop(socket.AF_INET if family == FAMILY_IPV4 else socket.AF_INET6, packed)
        zone, zone_bits = self._zones.match(packed, 4 if family == FAMILY_IPV4 else 6, bits)
        return Network(f"{text}/{bits}", zone, bits, zone_bits)
