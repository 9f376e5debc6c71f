"""Record data from the policy's words: addresses, text, CAA, SVCB and HTTPS (RFC 8659, 9460)."""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from director.core.policy import Addresses, Region
from director.dns.wire import Type, name_from_text

_PORT, _IPV4HINT, _IPV6HINT = 3, 4, 6
_CAA = re.compile(r'\s*(\d{1,3})\s+([A-Za-z0-9]+)\s+(?:"([^"]*)"|(\S+))\s*')
_TEXT_BYTES_MAX = 255


@lru_cache(maxsize=4096)
def address_records(addresses: Addresses, rtype: int) -> tuple[bytes, ...]:
    """The data of A or AAAA records."""
    texts = addresses.A if rtype == Type.A else addresses.AAAA
    return tuple(ip_address(text).packed for text in texts)


@lru_cache(maxsize=4096)
def text_record(text: str) -> bytes:
    """One TXT record; text beyond 255 bytes goes on in further strings of the same record."""
    raw = text.encode()
    pieces = [raw[i : i + _TEXT_BYTES_MAX] for i in range(0, len(raw), _TEXT_BYTES_MAX)] or [b""]
    return b"".join(bytes((len(piece),)) + piece for piece in pieces)


def caa_record(text: str) -> bytes:
    """`0 issue "ca.example.net"` → data. Raises ValueError."""
    match = _CAA.fullmatch(text)
    if match is None or int(match[1]) > 255:
        raise ValueError(f'CAA {text!r}: expected flags, tag and value, as in 0 issue "ca.example.net"')
    tag = match[2].lower().encode()
    value = (match[3] if match[3] is not None else match[4]).encode()
    return bytes((int(match[1]), len(tag))) + tag + value


def service_record(region: Region) -> bytes | None:
    """SVCB and HTTPS, ServiceMode, priority 1: the region's own host, its port, its addresses as hints.

    Target and hints name one region together, so that a client cannot mix two. None where the endpoint is not HTTPS:
    the record would promise what is not there. Without an ALPN list a client offers what it can (RFC 9460, 7.1.2).
    """
    url = urlsplit(region.endpoint)
    if url.scheme != "https" or not url.hostname:
        return None
    params = b""
    if url.port not in (None, 443):
        params += struct.pack("!HHH", _PORT, 2, url.port)
    for key, rtype in ((_IPV4HINT, Type.A), (_IPV6HINT, Type.AAAA)):
        hints = b"".join(address_records(region.addresses, rtype))
        if hints:
            params += struct.pack("!HH", key, len(hints)) + hints
    return struct.pack("!H", 1) + _target(url.hostname) + params


def _target(host: str) -> bytes:
    """The host as an uncompressed name; `.` (the owner itself) where the endpoint is a bare address."""
    try:
        ip_address(host)
    except ValueError:
        try:
            return name_from_text(host)
        except ValueError:
            pass
    return b"\0"
