"""How much strangers may have: responses per network (RRL), connections, bytes, time.

UDP sources can be forged, so a responder must not send a forged victim much. Each network gets so many responses a
second; beyond that every `slip`-th answer is cut to a TC that invites a real client to TCP, and the rest is silence.
A valid cookie proves the source and lifts the limit; so does TCP.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from msgspec import Struct, structs


class Limits(Struct, frozen=True):
    """Each with the reason for its default."""

    responses_per_s: int = 1000
    """Per client network (/24, /56) and second, UDP without a cookie. A busy public resolver's site stays below; a
    victim of reflection gets at most some 100 kB/s. 0 lifts the limit."""
    exempt: tuple[str, ...] = ()
    """Networks without that limit: a load balancer such as dnsdist, whose own limits stand before ours."""
    slip: int = 2
    """Every second limited answer is a TC, with no records but OPT: a real client among forged ones gets through."""
    networks_max: int = 200_000
    """Networks counted within one second; beyond, new ones are answered uncounted rather than not at all."""
    tcp_connections_max: int = 1000
    tcp_connections_per_client_max: int = 20
    """A resolver uses one or two; a NAT may hold several resolvers."""
    tcp_idle_s: float = 10.0
    """RFC 7766 wants seconds, not minutes, from a server that many may ask."""
    tcp_query_bytes_max: int = 4096
    """A query with every option we know is below 600."""
    tcp_unsent_bytes_max: int = 65_536
    """What a client that does not read may keep us holding; then it is dropped."""
    tcp_time_share_max: float = 0.25
    """Of each tenth of a second: a flood of TCP leaves the rest to UDP."""

    def for_each_of(self, workers: int) -> Limits:
        """The limits of one of several processes that share a port.

        The response limit protects others, whose network's queries the kernel spreads by port: it is divided, and
        rounded up, as 0 would lift it. A client that keeps to one port gets one worker's part, and TCP for the rest.
        The other limits protect the process itself.
        """
        return structs.replace(self, responses_per_s=-(-self.responses_per_s // workers))


class RateLimiter:
    """Responses per network in the running second. The whole table is dropped with the second: nothing to expire."""

    __slots__ = ("_counts", "_exempt", "_limit", "_networks_max", "_second", "_slip")

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.responses_per_s
        self._slip = limits.slip
        self._networks_max = limits.networks_max
        self._exempt = tuple(ip_network(text) for text in limits.exempt)
        self._second = 0
        self._counts: dict[bytes, int] = {}

    def tick(self, second: int) -> None:
        """Start a new second of the monotonic clock. Called once per batch."""
        if second != self._second:
            self._second = second
            self._counts = {}

    def over(self, source: bytes) -> bool:
        """Count one response to an address (4 or 16 bytes); whether that is more than its network may have."""
        network = source[:3] if len(source) == 4 else source[:7]
        counts = self._counts
        count = counts.get(network, 0) + 1
        if count == 1 and len(counts) >= self._networks_max:
            return False
        counts[network] = count
        return count > self._limit > 0 and not (self._exempt and self._is_exempt(source))

    def _is_exempt(self, source: bytes) -> bool:
        address = ip_address(source)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._exempt)

    def slips(self, source: bytes) -> bool:
        """Whether a response that was just found over the limit is one of those that are cut instead of dropped."""
        count = self._counts.get(source[:3] if len(source) == 4 else source[:7], 0)
        return self._slip > 0 and (count - self._limit) % self._slip == 0
