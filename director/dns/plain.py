"""Answers that are the same for everybody: SOA, NS, glue, CAA, refusals, and everything negative (RFC 2308)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from director.dns import body as bodies
from director.dns.body import Body, extended_error, record
from director.dns.networks import Scope
from director.dns.wire import Rcode, Type, Writer
from director.dns.zone import Node, Zone

if TYPE_CHECKING:
    from director.dns.book import AnswerBook

SELF: Final = b"\xc0\x0c"
"""A pointer to the question's name."""
STATIC: Final = extended_error(bodies.STALE_ANSWER, "static: decided from the last good plan")
LEAST: Final = b"\x07RFC8482\x00"
"""The HINFO that RFC 8482 offers instead of everything. Not beside a CNAME, which answers for itself (4.2)."""


def stale(book: AnswerBook) -> bytes:
    """The extended error that every answer of a static plan carries."""
    return STATIC if book.static else b""


def fixed_body(book: AnswerBook, zone: Zone | None, node: Node | None, name: bytes, qtype: int) -> Body:
    """The answer to a question that no pick takes part in."""
    if zone is None:
        ede = extended_error(bodies.NOT_AUTHORITATIVE, "not in a zone of ours")
        return Body(Rcode.REFUSED, book.tally(None, qtype, Rcode.REFUSED, None, None), ede=ede)
    if qtype in (Type.AXFR, Type.IXFR):
        ede = extended_error(bodies.NOT_SUPPORTED, "no transfers: answers differ by client")
        return Body(Rcode.REFUSED, book.tally(zone, qtype, Rcode.REFUSED, None, None), ede=ede)
    if node is None:
        return negative(book, zone, name, qtype, Rcode.NXDOMAIN)
    rdata = _static_data(node, qtype)
    if rdata:
        ttl_s = zone.ttl_s if node.route is None or qtype in (Type.A, Type.AAAA) else node.route.ttl_s
        return _positive(book, zone, qtype, len(rdata), b"".join(record(SELF, qtype, ttl_s, data) for data in rdata))
    if qtype == Type.ANY and not node.empty:
        return _positive(book, zone, qtype, 1, record(SELF, Type.HINFO, zone.ttl_s, LEAST))
    if node.apex and qtype == Type.SOA:
        return _positive(book, zone, qtype, 1, soa(book, zone, name, zone.ttl_s))
    if node.apex and qtype == Type.NS:
        return _nameservers(book, zone, name)
    return negative(book, zone, name, qtype, Rcode.NOERROR)


def negative(
    book: AnswerBook,
    zone: Zone,
    name: bytes,
    qtype: int,
    rcode: Rcode,
    *,
    ttl_s: int | None = None,
    scope: Scope = Scope.NOTHING,
    ede: bytes = b"",
) -> Body:
    """NXDOMAIN or NODATA: the SOA says for how long. Names of one length share it: floods ask for names without end."""
    ttl_s = zone.negative_ttl_s if ttl_s is None else min(ttl_s, zone.negative_ttl_s)
    tally = book.tally(zone, qtype, rcode, None, None)
    key = (tally, len(name), ttl_s, scope, ede)
    found = book.negatives.get(key)
    if found is None:
        authorities = (1, soa(book, zone, name, ttl_s))
        found = Body(rcode, tally, authorities=authorities, scope=scope, ede=ede + stale(book))
        book.negatives[key] = found
    return found


def soa(book: AnswerBook, zone: Zone, name: bytes, ttl_s: int) -> bytes:
    """The zone's SOA behind a question for a name of it. Only the apex is compressed, so that length alone matters."""
    writer = Writer(name, len(name) - len(zone.apex))
    numbers = zone.soa_numbers(book.table.plan.epoch)
    mname = zone.nameservers[0] if zone.nameservers else zone.apex
    writer.name_record(zone.apex, Type.SOA, ttl_s, mname, (zone.hostmaster, numbers))
    return writer.bytes()


def _positive(book: AnswerBook, zone: Zone, qtype: int, count: int, answers: bytes) -> Body:
    tally = book.tally(zone, qtype, Rcode.NOERROR, None, None)
    return Body(Rcode.NOERROR, tally, answers=(count, answers), ede=stale(book))


def _static_data(node: Node, qtype: int) -> list[bytes]:
    if node.addresses and qtype in (Type.A, Type.AAAA):
        size = 4 if qtype == Type.A else 16
        return [address for address in node.addresses if len(address) == size]
    return list(node.caa) if qtype == Type.CAA else []


def _nameservers(book: AnswerBook, zone: Zone, name: bytes) -> Body:
    writer = Writer(name)
    for host in zone.nameservers:
        writer.name_record(name, Type.NS, zone.ttl_s, host)
    answers = writer.bytes()
    glue = 0
    for host in zone.nameservers:
        node = zone.nodes.get(host)
        for address in node.addresses if node is not None else ():
            writer.record(host, Type.A if len(address) == 4 else Type.AAAA, zone.ttl_s, address)
            glue += 1
    tally = book.tally(zone, Type.NS, Rcode.NOERROR, None, None)
    return Body(
        Rcode.NOERROR,
        tally,
        answers=(len(zone.nameservers), answers),
        glue=(glue, writer.bytes()[len(answers) :]),
        ede=stale(book),
    )
