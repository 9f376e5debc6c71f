"""A prepared answer: everything of a response that depends on the plan, and nothing that depends on the asker."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from director.dns.networks import Scope
from director.dns.wire import (
    CLASS_IN,
    FLAG_AA,
    FLAG_DO,
    FLAG_QR,
    FLAG_RD,
    FLAG_TC,
    PAYLOAD_BYTES_MAX,
    Option,
    Rcode,
    Type,
)

if TYPE_CHECKING:
    from director.dns.metrics import Tally

STALE_ANSWER: Final = 3
NOT_READY: Final = 14
FILTERED: Final = 17
NOT_AUTHORITATIVE: Final = 20
NOT_SUPPORTED: Final = 21
NO_REACHABLE_AUTHORITY: Final = 22
INVALID_DATA: Final = 24


def extended_error(code: int, text: str) -> bytes:
    """An RFC 8914 option, ready to append to an OPT record."""
    raw = struct.pack("!H", code) + text.encode()
    return struct.pack("!HH", Option.ERROR, len(raw)) + raw


class Body:
    """What follows the question, and the header that goes with it.

    `tail` holds answer, authority and additional sections; the first `required_bytes` of it must not be left out
    silently, what follows (glue) may.
    """

    __slots__ = ("answers", "authorities", "ede", "glue", "heads", "rcode", "required_bytes", "scope", "tail", "tally")

    def __init__(
        self,
        rcode: Rcode,
        tally: Tally,
        *,
        answers: tuple[int, bytes] = (0, b""),
        authorities: tuple[int, bytes] = (0, b""),
        glue: tuple[int, bytes] = (0, b""),
        ede: bytes = b"",
        scope: Scope = Scope.NOTHING,
    ) -> None:
        self.rcode = rcode
        self.tally = tally
        self.answers, self.authorities, self.glue = answers[0], authorities[0], glue[0]
        self.tail = answers[1] + authorities[1] + glue[1]
        self.required_bytes = len(answers[1]) + len(authorities[1])
        self.ede = ede
        self.scope = scope
        self.heads = tuple(self._head(rd, opt) for opt in (0, 1) for rd in (0, 1))
        """Flags and counts, by RD + 2 × (has an OPT record)."""

    def _head(self, rd: int, opt: int, *, glue: bool = True) -> bytes:
        flags = FLAG_QR | self.rcode | (FLAG_RD if rd else 0)
        if self.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN):
            flags |= FLAG_AA
        return struct.pack("!5H", flags, 1, self.answers, self.authorities, (self.glue if glue else 0) + opt)

    def message(self, id_: bytes, rd: int, question: bytes, opt: bytes, bytes_max: int) -> bytes:
        """The response, cut to size: glue goes first; when that is not enough everything goes and TC says so."""
        has_opt = 1 if opt else 0
        whole = id_ + self.heads[rd + 2 * has_opt] + question + self.tail + opt
        if len(whole) <= bytes_max:
            return whole
        head = self._head(rd, has_opt, glue=False)
        lean = id_ + head + question + self.tail[: self.required_bytes] + opt
        return lean if len(lean) <= bytes_max else truncated(lean, question, opt)


def truncated(message: bytes, question: bytes, opt: bytes) -> bytes:
    """The same header with TC, the question, the OPT record, and nothing else."""
    flags = int.from_bytes(message[2:4], "big") | FLAG_TC
    counts = struct.pack("!5H", flags, 1 if question else 0, 0, 0, 1 if opt else 0)
    return message[:2] + counts + question + opt


def bare(id_: bytes, request_flags: int, rcode: int, question: bytes = b"", opt: bytes = b"") -> bytes:
    """A response without records: errors. Opcode and RD as they came."""
    flags = FLAG_QR | request_flags & (0x7800 | FLAG_RD) | rcode & 0xF
    return id_ + struct.pack("!5H", flags, 1 if question else 0, 0, 0, 1 if opt else 0) + question + opt


def opt_record(options: bytes, *, dnssec_ok: bool, rcode: int = 0) -> bytes:
    """Our OPT record (RFC 6891): version 0, what we can take over UDP, the upper bits of the response code."""
    ttl = (rcode >> 4) << 24 | (FLAG_DO if dnssec_ok else 0)
    return b"\0" + struct.pack("!HHIH", Type.OPT, PAYLOAD_BYTES_MAX, ttl, len(options)) + options


def record(owner: bytes, rtype: int, ttl_s: int, rdata: bytes) -> bytes:
    """One record whose owner is already compressed."""
    return owner + struct.pack("!HHIH", rtype, CLASS_IN, ttl_s, len(rdata)) + rdata
