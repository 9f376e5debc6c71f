"""Request heads seen before: a proxy sends the same lines with every request, and they need parsing once.

A head is taken apart into its first line, which is checked here, and the rest, which must be the very bytes that the
real parser took before, whole and at a message's beginning. What it made of them then holds: the same bytes have the
same meaning. Only plain requests are remembered: kept alive, framed by Content-Length or without a body. Anything else,
and any first line out of the ordinary, goes to the parser. Who may ask is not remembered here but looked up each time.
"""

from __future__ import annotations

import re

from msgspec import Struct

from director.http.decision.endpoint import PATH

HEADS_MAX = 256
HEAD_BYTES_MAX = 4_096

_FIRST_LINE = re.compile(rb"(GET|POST) (%b(?:[/?][A-Za-z0-9\-._~%%!$&'()*+,;=:@/?]*)?) HTTP/1\.1" % re.escape(PATH))
_PLAIN_POST = b"POST %b HTTP/1.1" % PATH

_UNUSUAL = frozenset((b"transfer-encoding", b"expect", b"upgrade", b"connection"))
_KEEP_ALIVE = (b"connection", b"keep-alive")

Headers = list[tuple[bytes, bytes]]


class Framed(Struct, frozen=True, gc=False):
    """A whole request."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes


class HeadMemo:
    """The rest of a head → its headers and the length of the body that follows it. Of one server."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Headers, int]] = {}

    def frame(self, data: bytes) -> Framed | None:
        """The one request that `data` is, from its first byte to its last; None where the parser must look."""
        line_end = data.find(b"\r\n")
        head_end = data.find(b"\r\n\r\n", line_end)
        known = self._known.get(data[line_end:head_end])
        if known is None or head_end < 0:
            return None
        headers, length = known
        if len(data) != head_end + 4 + length:
            return None
        line = data[:line_end]
        if line == _PLAIN_POST:
            return Framed(b"POST", PATH, headers, data[head_end + 4 :])
        match = _FIRST_LINE.fullmatch(line)
        if match is None:
            return None
        return Framed(match[1], match[2], headers, data[head_end + 4 :])

    def learn(self, rest: bytes, headers: Headers, body_length: int) -> None:
        """Remember what the parser made of `rest`: a kept-alive request's head without its first line."""
        if len(self._known) >= HEADS_MAX:
            self._known.clear()
        self._known[rest] = (headers, body_length)


def rest_of(data: bytes, headers: Headers, body_length: int) -> bytes | None:
    """The rest of the head in `data`, when `data` is one whole plain request with these headers and this body."""
    line_end = data.find(b"\r\n")
    head_end = data.find(b"\r\n\r\n", line_end)
    if not 0 <= line_end <= head_end <= HEAD_BYTES_MAX or len(data) != head_end + 4 + body_length:
        return None
    lengths = [value for name, value in headers if name == b"content-length"]
    if lengths != [b"%d" % body_length] and (lengths or body_length):
        return None
    if any(name in _UNUSUAL and (name, value.lower()) != _KEEP_ALIVE for name, value in headers):
        return None
    return data[line_end:head_end]
