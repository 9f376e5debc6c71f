"""DNS messages as bytes: reading a query, writing the few record types we serve (RFC 1035, 6891, 8945).

By hand and small, because it is asked for every packet of the complete path. Names stay in wire form throughout
(length-prefixed labels, root included); only `name_from_text` and `name_to_text` know the dotted form.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

HEADER_BYTES: Final = 12
NAME_BYTES_MAX: Final = 255
LABEL_BYTES_MAX: Final = 63
CLASS_IN: Final = 1
PAYLOAD_BYTES_MAX: Final = 1232
"""What fits the smallest IPv6 path without fragments; we neither send nor invite larger UDP messages."""
PAYLOAD_BYTES_MIN: Final = 512

FLAG_QR: Final = 0x8000
FLAG_AA: Final = 0x0400
FLAG_TC: Final = 0x0200
FLAG_RD: Final = 0x0100
FLAG_DO: Final = 0x8000


class Type(IntEnum):
    """Record types that mean something to us; every other number is served as NODATA (RFC 3597)."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    HINFO = 13
    TXT = 16
    AAAA = 28
    OPT = 41
    DS = 43
    SVCB = 64
    HTTPS = 65
    TSIG = 250
    IXFR = 251
    AXFR = 252
    ANY = 255
    CAA = 257


class Rcode(IntEnum):
    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    NOTAUTH = 9
    BADVERS = 16
    BADCOOKIE = 23


class Option(IntEnum):
    """EDNS options that we act on."""

    NSID = 3
    SUBNET = 8
    COOKIE = 10
    KEEPALIVE = 11
    ERROR = 15


class Edns(NamedTuple):
    """The OPT record of a query. `options` is None when the version is not ours: its data may mean anything."""

    payload_bytes: int
    version: int
    dnssec_ok: bool
    options: tuple[tuple[int, bytes], ...] | None


class Tsig(NamedTuple):
    """A signature that we hold no key for: what the refusal must repeat (RFC 8945, 5.2.1)."""

    key_name: bytes
    algorithm: bytes
    time_signed: bytes
    fudge: bytes
    original_id: bytes


class Query(NamedTuple):
    id: int
    flags: int
    name: bytes
    """As asked, case kept."""
    type: int
    klass: int
    edns: Edns | None
    tsig: Tsig | None

    @property
    def question(self) -> bytes:
        return self.name + struct.pack("!HH", self.type, self.klass) if self.name else b""


class Malformed(Exception):
    """The sender's fault: FORMERR. Carries what was understood before the fault, for the answer to repeat."""

    def __init__(self, why: str, *, question: bytes = b"", edns: Edns | None = None) -> None:
        super().__init__(why)
        self.question = question
        self.edns = edns


def parse_query(data: bytes) -> Query:
    """Read one query whole. A message without a question has an empty name. Raises Malformed.

    Expects at least a header, QR clear and opcode QUERY: those are the caller's to refuse, each in its own way.
    """
    id_, flags, questions, answers, authorities, additionals = struct.unpack_from("!6H", data)
    if questions > 1:
        raise Malformed("more than one question")
    name, qtype, qclass, offset = b"", 0, 0, HEADER_BYTES
    if questions:
        name, offset = _read_plain_name(data, offset)
        if offset + 4 > len(data):
            raise Malformed("question cut short")
        qtype, qclass = struct.unpack_from("!HH", data, offset)
        offset += 4
    question = data[HEADER_BYTES:offset]
    edns: Edns | None = None
    tsig: Tsig | None = None
    try:
        for _ in range(answers + authorities):
            _, rtype, _, _, _, offset = _read_record(data, offset)
            if rtype in (Type.OPT, Type.TSIG):
                raise Malformed("a pseudo-record outside the additional section")
        for left in range(additionals, 0, -1):
            owner, rtype, rclass, ttl, rdata, offset = _read_record(data, offset)
            if rtype == Type.OPT:
                if edns is not None or owner != b"\0":
                    raise Malformed("OPT twice, or not at the root")
                edns = _read_edns(rclass, ttl, rdata, question)
            elif rtype == Type.TSIG:
                if left != 1:
                    raise Malformed("TSIG is not the last record")
                tsig = _read_tsig(owner, rdata)
        if offset != len(data):
            raise Malformed("bytes after the message")
    except Malformed as fault:
        raise Malformed(str(fault), question=question, edns=fault.edns or edns) from None
    return Query(id_, flags, name, qtype, qclass, edns, tsig)


def _read_plain_name(data: bytes, offset: int) -> tuple[bytes, int]:
    """A name without compression: in a question there is nothing to point at."""
    start = offset
    while True:
        if offset >= len(data):
            raise Malformed("name cut short")
        length = data[offset]
        if length > LABEL_BYTES_MAX:
            raise Malformed("a compressed or unknown label in the question")
        offset += 1 + length
        if offset - start > NAME_BYTES_MAX:
            raise Malformed("name longer than 255 bytes")
        if length == 0:
            return data[start:offset], offset


def _skip_name(data: bytes, offset: int) -> int:
    """The offset behind a name that may end in a pointer, which is not followed: nothing here needs its target."""
    start = offset
    while True:
        if offset >= len(data):
            raise Malformed("name cut short")
        length = data[offset]
        if length >= 0xC0:
            return offset + 2
        if length > LABEL_BYTES_MAX:
            raise Malformed("unknown label type")
        offset += 1 + length
        if offset - start > NAME_BYTES_MAX:
            raise Malformed("name longer than 255 bytes")
        if length == 0:
            return offset


def _read_record(data: bytes, offset: int) -> tuple[bytes, int, int, int, bytes, int]:
    """(owner as written, type, class, ttl, rdata, offset behind)."""
    end = _skip_name(data, offset)
    if end + 10 > len(data):
        raise Malformed("record cut short")
    rtype, rclass, ttl, length = struct.unpack_from("!HHIH", data, end)
    stop = end + 10 + length
    if stop > len(data):
        raise Malformed("record data cut short")
    return data[offset:end], rtype, rclass, ttl, data[end + 10 : stop], stop


def _read_edns(payload_bytes: int, ttl: int, rdata: bytes, question: bytes) -> Edns:
    version = ttl >> 16 & 0xFF
    dnssec_ok = bool(ttl & FLAG_DO)
    if version != 0:
        return Edns(payload_bytes, version, dnssec_ok, None)
    options: list[tuple[int, bytes]] = []
    offset = 0
    while offset < len(rdata):
        if offset + 4 > len(rdata):
            break
        code, length = struct.unpack_from("!HH", rdata, offset)
        offset += 4 + length
        if offset > len(rdata):
            break
        options.append((code, rdata[offset - length : offset]))
    edns = Edns(payload_bytes, version, dnssec_ok, tuple(options))
    if offset != len(rdata):
        raise Malformed("EDNS option cut short", question=question, edns=edns)
    return edns


def _read_tsig(owner: bytes, rdata: bytes) -> Tsig:
    try:
        algorithm, offset = _read_plain_name(rdata, 0)
        mac_length = int.from_bytes(rdata[offset + 8 : offset + 10], "big")
        behind = offset + 10 + mac_length
        original_id = rdata[behind : behind + 2]
        # The answer repeats the key's name: a pointer in it would point elsewhere there.
        key_name, _ = _read_plain_name(owner, 0)
        if len(original_id) != 2:
            raise Malformed("TSIG cut short")
    except Malformed:
        raise Malformed("TSIG is not readable") from None
    return Tsig(key_name, algorithm, rdata[offset : offset + 6], rdata[offset + 6 : offset + 8], original_id)


def name_from_text(text: str) -> bytes:
    """`chat.eu.example.com` (a final dot is welcome) → wire form, lower case. Raises ValueError."""
    stripped = text[:-1] if text.endswith(".") else text
    if not stripped:
        return b"\0"
    wire = bytearray()
    for label in stripped.split("."):
        raw = label.encode("ascii") if label.isascii() else label.encode("idna")
        if not 1 <= len(raw) <= LABEL_BYTES_MAX:
            raise ValueError(f"{text!r}: each label has 1 to {LABEL_BYTES_MAX} bytes")
        wire.append(len(raw))
        wire += raw.lower()
    wire.append(0)
    if len(wire) > NAME_BYTES_MAX:
        raise ValueError(f"{text!r}: a name has at most {NAME_BYTES_MAX} bytes")
    return bytes(wire)


def name_to_text(wire: bytes) -> str:
    """Wire form → dotted text with a final dot; bytes outside printable ASCII as \\DDD."""
    labels: list[str] = []
    offset = 0
    while wire[offset]:
        raw = wire[offset + 1 : offset + 1 + wire[offset]]
        labels.append("".join(chr(b) if 0x21 <= b <= 0x7E and b not in b'."\\' else f"\\{b:03d}" for b in raw))
        offset += 1 + wire[offset]
    return ".".join(labels) + "."


def parent(wire: bytes) -> bytes:
    """The name one label up. The root has none: callers stop there."""
    return wire[1 + wire[0] :]


class Writer:
    """Record data behind a question that starts at byte 12, with names compressed against what is already written.

    Only names of RFC 1035's own types are compressed (RFC 3597, 4): owners, NS, SOA, CNAME. A pointer into the question
    repeats the case that was asked. `skip` leading bytes of the question's name are not pointed at.
    """

    def __init__(self, question_name: bytes, skip: int = 0) -> None:
        self._parts: list[bytes] = []
        self._offset = HEADER_BYTES + len(question_name) + 4
        self._seen: dict[bytes, int] = {}
        self._remember(question_name[skip:].lower(), HEADER_BYTES + skip)

    def _remember(self, name: bytes, offset: int) -> None:
        while name != b"\0" and offset < 0x4000:
            self._seen.setdefault(name, offset)
            offset += 1 + name[0]
            name = parent(name)

    def name(self, name: bytes, at: int) -> bytes:
        """The compressed form of a lower-case name that will be written at `at`."""
        head = bytearray()
        rest = name
        while rest != b"\0":
            pointer = self._seen.get(rest)
            if pointer is not None:
                self._remember_head(name, len(head), at)
                return bytes(head) + struct.pack("!H", 0xC000 | pointer)
            head += rest[: 1 + rest[0]]
            rest = parent(rest)
        self._remember_head(name, len(head), at)
        return bytes(head) + b"\0"

    def _remember_head(self, name: bytes, head_bytes: int, at: int) -> None:
        written = 0
        while written < head_bytes and at + written < 0x4000:
            self._seen.setdefault(name, at + written)
            written += 1 + name[0]
            name = parent(name)

    def record(self, owner: bytes, rtype: int, ttl_s: int, rdata: bytes) -> None:
        """A record whose data holds no compressible name."""
        head = self.name(owner, self._offset)
        self._put(head + struct.pack("!HHIH", rtype, CLASS_IN, ttl_s, len(rdata)) + rdata)

    def name_record(
        self, owner: bytes, rtype: int, ttl_s: int, target: bytes, after: tuple[bytes, bytes] | None = None
    ) -> None:
        """NS and CNAME; SOA with `after` = (the second name, the fixed numbers)."""
        head = self.name(owner, self._offset)
        at = self._offset + len(head) + 10
        rdata = self.name(target, at)
        if after is not None:
            rdata += self.name(after[0], at + len(rdata)) + after[1]
        self._put(head + struct.pack("!HHIH", rtype, CLASS_IN, ttl_s, len(rdata)) + rdata)

    def _put(self, record: bytes) -> None:
        self._parts.append(record)
        self._offset += len(record)

    def bytes(self) -> bytes:
        return b"".join(self._parts)
