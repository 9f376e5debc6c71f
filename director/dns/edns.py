"""The options of a query's OPT record, understood, and those of the answer (RFC 6891, 7871, 7873, 7828, 5001)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from director.dns.body import opt_record
from director.dns.cookies import CLIENT_BYTES, SERVER_BYTES_MAX, SERVER_BYTES_MIN, CookieJar
from director.dns.metrics import Transport
from director.dns.networks import Network, Networks, Scope, Subnet, read_subnet
from director.dns.wire import PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN, Edns, Option


class OptionMalformed(Exception):
    """The sender's fault: FORMERR."""


class Asked(NamedTuple):
    """What the options of one query ask for."""

    nsid: bool = False
    subnet: Subnet | None = None
    cookie: bytes | None = None
    keepalive: bool = False


def read_options(edns: Edns, transport: Transport) -> Asked:
    """Understand the options we know; those we do not know are ignored. Raises OptionMalformed."""
    nsid = keepalive = False
    subnet: Subnet | None = None
    cookie: bytes | None = None
    for code, data in edns.options or ():
        if code == Option.NSID:
            nsid = True
        elif code == Option.SUBNET:
            if subnet is not None or (subnet := read_subnet(data)) is None:
                raise OptionMalformed("client subnet")
        elif code == Option.COOKIE:
            if cookie is not None or not _cookie_length_right(data):
                raise OptionMalformed("cookie")
            cookie = data
        elif code == Option.KEEPALIVE and transport == "tcp":
            if data:
                raise OptionMalformed("keep-alive")
            keepalive = True
    return Asked(nsid, subnet, cookie, keepalive)


def _cookie_length_right(data: bytes) -> bool:
    server = len(data) - CLIENT_BYTES
    return server == 0 or SERVER_BYTES_MIN <= server <= SERVER_BYTES_MAX


_NO_OPTS = [b"", b"", b""]


class Reply:
    """Everything an answer needs to know of the asker: its network, its size limit, and the OPT record to come.

    Made from an OPT record and an address alone, so that a hot path may keep it for the next such query.
    """

    __slots__ = (
        "_after",
        "_before",
        "_dnssec_ok",
        "_subnet",
        "bytes_max",
        "cookie_valid",
        "has_edns",
        "network",
        "opts",
        "source_matters",
    )

    def __init__(
        self,
        edns: Edns | None,
        asked: Asked,
        source: bytes,
        networks: Networks,
        *,
        transport: Transport,
        nsid: bytes,
        idle_s: float,
        jar: CookieJar,
        now_s: int,
    ) -> None:
        self.cookie_valid = asked.cookie is not None and jar.check(asked.cookie, source, now_s)
        # As the answer repeats it, but for the scope: the fourth byte.
        self._subnet = asked.subnet.option(0) if asked.subnet is not None else None
        self.source_matters = asked.cookie is not None or asked.subnet is None or not asked.subnet.source_bits
        """Whether the same OPT record from another address would make another reply."""
        self.network: Network = (
            networks.of_subnet(asked.subnet, source) if asked.subnet is not None else networks.of_source(source)
        )
        self._dnssec_ok = edns is not None and edns.dnssec_ok
        self.has_edns = edns is not None
        self.bytes_max = 0xFFFF if transport == "tcp" else PAYLOAD_BYTES_MIN
        self.opts = _NO_OPTS
        """The whole OPT record by Scope, without extended errors; b"" where it was not needed so far."""
        self._before = self._after = b""
        if edns is None:
            return
        self.opts = [b"", b"", b""]
        if transport == "udp":
            self.bytes_max = max(PAYLOAD_BYTES_MIN, min(edns.payload_bytes, PAYLOAD_BYTES_MAX))
        if asked.nsid:
            self._before = _option(Option.NSID, nsid)
        if asked.cookie is not None:
            self._after = _option(Option.COOKIE, jar.answer(asked.cookie, source, now_s, valid=self.cookie_valid))
        if asked.keepalive:
            self._after += _option(Option.KEEPALIVE, struct.pack("!H", min(0xFFFF, int(idle_s * 10))))

    def plain_opt(self, scope: Scope) -> bytes:
        """The OPT record of an answer that used this much of the client; b"" where the query had none."""
        if not self.has_edns:
            return b""
        found = self.opts[scope]
        if not found:
            found = self.opts[scope] = self.opt(scope)
        return found

    def opt(self, scope: Scope, ede: bytes = b"", rcode: int = 0) -> bytes:
        """The same, with extended errors, or with a response code beyond four bits."""
        if not self.has_edns:
            return b""
        subnet = b""
        if self._subnet is not None:
            # Never more than was given; so /0 in: nothing of the client was used, whatever the answer depends on.
            bits = min(self.network.scope_bits[scope], self._subnet[2])
            subnet = _option(Option.SUBNET, self._subnet[:3] + bytes((bits,)) + self._subnet[4:])
        return opt_record(self._before + subnet + self._after + ede, dnssec_ok=self._dnssec_ok, rcode=rcode)


def _option(code: int, data: bytes) -> bytes:
    return struct.pack("!HH", code, len(data)) + data
