"""Which client zone an address belongs to: the longest listed prefix that holds it, else `default`.

The prefixes of all zones are flattened once into neighbouring intervals of addresses, each with one zone, so that a
lookup is one binary search whatever the prefixes' lengths, 10,000 networks cost a megabyte, and the widest prefix over
which an answer still holds can be read off the interval's ends. IPv4-mapped IPv6 addresses are IPv4 addresses.
"""

from __future__ import annotations

from bisect import bisect_right
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from director.core.policy import DEFAULT_ZONE

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from director.core.policy import Policy

MEMO_MAX = 65_536
"""Addresses remembered as they were written: about 8 MiB when full, then started anew."""

_MAPPED = 0xFFFF << 32
_MAPPED_BITS = 96


class _Family:
    """All prefixes of one address family, flattened."""

    def __init__(self, bits: int, prefixes: dict[tuple[int, int], str]) -> None:
        """`prefixes`: (length, first address) → zone."""
        self.bits = bits
        self.prefixes = prefixes
        self.lengths = sorted({length for length, _ in prefixes}, reverse=True)
        self.starts: list[int] = []
        self.zones: list[str] = []
        open_: list[tuple[int, str]] = []  # enclosing prefixes: (address after the last, zone)
        self._begin(0, DEFAULT_ZONE)
        for length, first in sorted(prefixes, key=lambda prefix: (prefix[1], prefix[0])):
            self._close(open_, first)
            zone = prefixes[length, first]
            self._begin(first, zone)
            open_.append((first + (1 << (bits - length)), zone))
        self._close(open_, 1 << bits)

    def _close(self, open_: list[tuple[int, str]], address: int) -> None:
        """End every enclosing prefix that ends at or before `address`."""
        while open_ and open_[-1][0] <= address:
            end, _ = open_.pop()
            if end < 1 << self.bits:
                self._begin(end, open_[-1][1] if open_ else DEFAULT_ZONE)

    def _begin(self, address: int, zone: str) -> None:
        """From `address` on it is `zone`. Neighbours of one zone become one interval."""
        if self.starts and self.starts[-1] == address:
            self.starts.pop()
            self.zones.pop()
        if not self.zones or self.zones[-1] != zone:
            self.starts.append(address)
            self.zones.append(zone)

    def zone(self, address: int) -> str:
        return self.zones[bisect_right(self.starts, address) - 1]

    def match(self, address: int, source_bits: int) -> tuple[str, int]:
        """The zone, and the length of the widest block around `address` that lies in it whole."""
        at = bisect_right(self.starts, address) - 1
        first = self.starts[at]
        after = self.starts[at + 1] if at + 1 < len(self.starts) else 1 << self.bits
        # A block of 2^k addresses stays clear of another address if the two differ at or above bit k.
        free = self.bits
        if first:
            free = (address ^ (first - 1)).bit_length() - 1
        if after < 1 << self.bits:
            free = min(free, (address ^ after).bit_length() - 1)
        scope = self.bits - free
        if scope > source_bits:
            return self._covering(address, source_bits), scope
        return self.zones[at], scope

    def _covering(self, address: int, source_bits: int) -> str:
        """The client's network spans several zones: it belongs to the longest prefix that holds all of it."""
        for length in self.lengths:
            if length <= source_bits:
                first = address >> (self.bits - length) << (self.bits - length)
                if (zone := self.prefixes.get((length, first))) is not None:
                    return zone
        return DEFAULT_ZONE


class ZoneIndex:
    """Immutable but for its memo of addresses. One per policy."""

    def __init__(self, policy: Policy) -> None:
        """Raises ValueError where a network of `client_zones` is none."""
        prefixes: dict[int, dict[tuple[int, int], str]] = {4: {}, 6: {}}
        for zone, entry in policy.client_zones.items():
            for text in entry.networks:
                network = canonical_network(text)
                prefixes[network.version][network.prefixlen, int(network.network_address)] = zone
        self._v4 = _Family(32, prefixes[4])
        self._v6 = _Family(128, prefixes[6])
        self._memo: dict[str, str] = {}

    def zone_of(self, address: str) -> str:
        """The zone of an address as text, IPv4 or IPv6. Raises ValueError where it is neither."""
        zone = self._memo.get(address)
        if zone is None:
            zone = self._zone(ip_address(address))
            if len(self._memo) >= MEMO_MAX:
                self._memo.clear()
            self._memo[address] = zone
        return zone

    def zone_of_network(self, network: str) -> str:
        """The zone of a client network such as `203.0.113.0/24`.

        Where it spans several zones, that of the longest listed prefix which holds all of it.

        Raises ValueError where it is no network.
        """
        parsed = canonical_network(network)
        return self.match(parsed.network_address.packed, parsed.version, parsed.prefixlen)[0]

    def match(self, packed: bytes, family: int, source_bits: int | None = None) -> tuple[str, int]:
        """Zone and prefix length for a client's address or network, as RFC 7871 wants them.

        `packed` has 4 bytes for family 4 and 16 for family 6; `source_bits` of it are known (None: all). The length is
        that of the widest prefix around the address in which every address has this zone. It may exceed `source_bits`:
        the network spans several zones, and the answer is that of the prefix which holds all of it.
        """
        address = int.from_bytes(packed, "big")
        if family == 4:
            return self._v4.match(address, 32 if source_bits is None else source_bits)
        known_bits = 128 if source_bits is None else source_bits
        if address >> 32 == 0xFFFF and known_bits >= _MAPPED_BITS:
            zone, length = self._v4.match(address & 0xFFFFFFFF, known_bits - _MAPPED_BITS)
            return zone, length + _MAPPED_BITS
        return self._v6.match(address, known_bits)

    def _zone(self, address: IPv4Address | IPv6Address) -> str:
        if isinstance(address, IPv6Address):
            mapped = address.ipv4_mapped
            if mapped is None:
                return self._v6.zone(int(address))
            address = mapped
        return self._v4.zone(int(address))


def canonical_network(text: str) -> IPv4Network | IPv6Network:
    """A network from text; one inside ::ffff:0:0/96 is the IPv4 network that it maps. Raises ValueError."""
    network = ip_network(text)
    if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        first = int(network.network_address)
        if first >> 32 == _MAPPED >> 32:
            return ip_network((first & 0xFFFFFFFF, network.prefixlen - _MAPPED_BITS))
    return network
