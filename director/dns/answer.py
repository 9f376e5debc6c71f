"""The complete path: any bytes in, an answer or silence out. Every rule of the protocol is kept here.

The hot path (`director.dns.fast`) serves the common query from what this path has made, and must give the same bytes.
"""

from __future__ import annotations

import contextlib
import secrets
import struct
from typing import NamedTuple

from director.core.affinity import KeyRing
from director.core.policy import DEFAULT_ZONE
from director.dns import body as bodies
from director.dns.body import bare, extended_error, opt_record
from director.dns.book import AnswerBook
from director.dns.cookies import CookieJar
from director.dns.edns import Asked, OptionMalformed, Reply, read_options
from director.dns.metrics import Counters, Tally, Transport
from director.dns.networks import Networks, Scope
from director.dns.view import DnsView
from director.dns.wire import (
    CLASS_IN,
    FLAG_QR,
    HEADER_BYTES,
    Edns,
    Malformed,
    Query,
    Rcode,
    Tsig,
    Type,
    parse_query,
)

OPCODE_MASK = 0x7800
_TSIG_BAD_KEY = 17
_NO_PLAN = extended_error(bodies.NOT_READY, "no plan yet")


class _NoZones:
    """Client zones while there is no policy: one, of everybody."""

    def match(self, packed: bytes, family: int, source_bits: int | None = None) -> tuple[str, int]:
        return DEFAULT_ZONE, 0


_NO_ZONES = _NoZones()


class Answer(NamedTuple):
    """A response, and what a rate limit or a cache wants to know of it."""

    wire: bytes
    rcode: int
    tally: Tally | None
    """What to count it as; None where no book made it."""
    reply: Reply | None = None
    """Set where the query was well formed, with or without a plan."""
    question: bytes = b""
    opt: bytes = b""

    @property
    def cookie_valid(self) -> bool:
        return self.reply is not None and self.reply.cookie_valid


class Answerer:
    """Answers messages from a view. One for each process; what it keeps belongs to one plan at a time."""

    def __init__(self, view: DnsView, *, nsid: bytes = b"", tcp_idle_s: float = 10.0) -> None:
        self.view = view
        self.nsid = nsid
        self.tcp_idle_s = tcp_idle_s
        self.counters = Counters()
        self.book: AnswerBook | None = None
        self._keyring: KeyRing | None = None
        self.jar = CookieJar(KeyRing("none", {"none": secrets.token_bytes(32)}))
        """Until there is a key ring nobody else could verify our cookies, and nobody else's could reach us."""

    def refresh(self) -> AnswerBook | None:
        """The book of the view's plan; a new one when plan, zones or staleness changed."""
        view, book = self.view, self.book
        table = view.table
        if table is None:
            if book is not None:
                self._retire(book)
            self.book = None
            return None
        now_ms, zones, static = view.now_ms(), view.zones, view.static
        if book is None or not book.current(table, zones, static=static, now_ms=now_ms):
            self.book = AnswerBook(table, zones, static=static, now_ms=now_ms, previous=book)
            if book is not None:
                self._retire(book)
            if table.keyring is not self._keyring:
                self._keyring = table.keyring
                self.jar = CookieJar(table.keyring)
        return self.book

    def _retire(self, book: AnswerBook) -> None:
        self.send_demand(book)
        book.retire()
        self.counters.absorb(list(book.tallies.values()))
        self.counters.table_swaps += 1

    def send_demand(self, book: AnswerBook) -> None:
        """Tell the replica where answers sent clients since the last call."""
        for tally in book.tallies.values():
            if tally.route is not None and tally.decision is not None:
                unsent = tally.udp + tally.tcp - tally.sent
                if unsent:
                    tally.sent += unsent
                    self.view.count_demand(tally.route, tally.decision, unsent)

    def answer(self, data: bytes, source: bytes, transport: Transport, *, refresh: bool = True) -> Answer | None:
        """One message from an address (4 or 16 bytes). None: silence, for what is no query at all.

        `refresh`: look at the view first; a caller that answers a batch did so for all of it.
        """
        if refresh:
            self.refresh()
        if len(data) < HEADER_BYTES:
            return None
        flags = int.from_bytes(data[2:4], "big")
        if flags & FLAG_QR:
            return None
        if flags & OPCODE_MASK:
            # The rest of a message with an opcode that we do not know may mean anything: nothing of it is repeated.
            return Answer(bare(data[:2], flags, Rcode.NOTIMP), Rcode.NOTIMP, None)
        try:
            query = parse_query(data)
        except Malformed as fault:
            opt = _plain_opt(fault.edns)
            return Answer(bare(data[:2], flags, Rcode.FORMERR, fault.question, opt), Rcode.FORMERR, None)
        if query.edns is not None and query.edns.version != 0:
            opt = opt_record(b"", dnssec_ok=query.edns.dnssec_ok, rcode=Rcode.BADVERS)
            return Answer(bare(data[:2], flags, Rcode.BADVERS, query.question, opt), Rcode.BADVERS, None)
        return self._understood(data[:2], query, source, transport)

    def _understood(self, id_: bytes, query: Query, source: bytes, transport: Transport) -> Answer:
        try:
            asked = read_options(query.edns, transport) if query.edns is not None else Asked()
        except OptionMalformed:
            wire = bare(id_, query.flags, Rcode.FORMERR, query.question, _plain_opt(query.edns))
            return Answer(wire, Rcode.FORMERR, None)
        book = self.book
        reply = Reply(
            query.edns,
            asked,
            source,
            book.networks if book is not None else Networks(_NO_ZONES),
            transport=transport,
            nsid=self.nsid,
            idle_s=self.tcp_idle_s,
            jar=self.jar,
            now_s=self.view.now_ms() // 1000,
        )
        return self._answered(id_, query, asked, reply, book)

    def _answered(self, id_: bytes, query: Query, asked: Asked, reply: Reply, book: AnswerBook | None) -> Answer:
        if query.tsig is not None:
            return _bad_key(id_, query, query.tsig, reply)
        if not query.name:
            # Only a client that wants a cookie may ask nothing (RFC 7873, 5.4).
            rcode = Rcode.NOERROR if asked.cookie is not None else Rcode.FORMERR
            opt = reply.plain_opt(Scope.NOTHING)
            return Answer(bare(id_, query.flags, rcode, b"", opt), rcode, None, reply, b"", opt)
        if query.klass != CLASS_IN:
            opt = reply.opt(Scope.NOTHING, extended_error(bodies.NOT_AUTHORITATIVE, "class IN only"))
            wire = bare(id_, query.flags, Rcode.REFUSED, query.question, opt)
            return Answer(wire, Rcode.REFUSED, None, reply, query.question, opt)
        if book is None:
            # Never an arbitrary region: nothing is known, not even which zones are ours.
            opt = reply.opt(Scope.NOTHING, _NO_PLAN)
            wire = bare(id_, query.flags, Rcode.SERVFAIL, query.question, opt)
            return Answer(wire, Rcode.SERVFAIL, None, reply, query.question, opt)
        body = book.entry(query.name.lower(), query.type).body(reply.network)
        opt = reply.opt(body.scope, body.ede) if body.ede else reply.plain_opt(body.scope)
        wire = body.message(id_, query.flags >> 8 & 1, query.question, opt, reply.bytes_max)
        return Answer(wire, body.rcode, body.tally, reply, query.question, opt)


def servfail(data: bytes) -> bytes:
    """The answer to a message that we failed to answer: as much of it repeated as can be read. `data` has a header."""
    question, edns = b"", None
    with contextlib.suppress(Exception):
        query = parse_query(data)
        question, edns = query.question, query.edns
    return bare(data[:2], int.from_bytes(data[2:4], "big"), Rcode.SERVFAIL, question, _plain_opt(edns))


def _plain_opt(edns: Edns | None) -> bytes:
    return b"" if edns is None else opt_record(b"", dnssec_ok=edns.dnssec_ok)


def _bad_key(id_: bytes, query: Query, tsig: Tsig, reply: Reply) -> Answer:
    """We share keys with nobody: NOTAUTH, with an unsigned TSIG that says BADKEY (RFC 8945, 5.2.1)."""
    rdata = (
        tsig.algorithm
        + tsig.time_signed
        + tsig.fudge
        + b"\0\0"
        + tsig.original_id
        + struct.pack("!HH", _TSIG_BAD_KEY, 0)
    )
    record = tsig.key_name + struct.pack("!HHIH", Type.TSIG, 255, 0, len(rdata)) + rdata
    opt = reply.plain_opt(Scope.NOTHING)
    plain = bare(id_, query.flags, Rcode.NOTAUTH, query.question, opt)
    counts = struct.pack("!H", (1 if opt else 0) + 1)
    wire = plain[:10] + counts + plain[12:] + record
    return Answer(wire, Rcode.NOTAUTH, None, reply, query.question, opt)
