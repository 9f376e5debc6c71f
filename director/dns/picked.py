"""Answers that name a region: the pick of a route, put into records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.core.decision import Refusal
from director.core.policy import Addresses, Policy
from director.dns import body as bodies
from director.dns.body import Body, extended_error, record
from director.dns.plain import LEAST, SELF, negative, stale
from director.dns.rdata import address_records, service_record, text_record
from director.dns.routes import NameRoute, Outcome, is_alias
from director.dns.wire import Rcode, Type, Writer, name_from_text
from director.dns.zone import Node, Zone

if TYPE_CHECKING:
    from director.dns.book import AnswerBook

_PICKED_TYPES = frozenset((Type.A, Type.AAAA, Type.TXT, Type.CNAME, Type.HTTPS, Type.SVCB))
_DEMAND_TYPES = frozenset((Type.A, Type.AAAA))
"""A client that follows an HTTPS record asks for addresses as well: counted once."""


def depends_on_pick(policy: Policy, node: Node, qtype: int) -> bool:
    """Whether a question needs a pick: types that name a region, and all types where the pick may be an alias."""
    if node.route is None or qtype in (Type.AXFR, Type.IXFR):
        return False
    if node.addresses and qtype in (Type.A, Type.AAAA):
        return False
    if node.apex:
        return qtype in _PICKED_TYPES
    if qtype in _PICKED_TYPES:
        return True
    fallback = node.route.fallback if node.route.when_none == "fallback" else Addresses()
    return is_alias(fallback) or any(is_alias(region.addresses) for region in policy.regions.values())


class _Question:
    """What the builders below share."""

    __slots__ = ("book", "name", "node", "outcome", "qtype", "route", "zone")

    def __init__(
        self, book: AnswerBook, zone: Zone, node: Node, name: bytes, qtype: int, route: NameRoute, outcome: Outcome
    ) -> None:
        self.book, self.zone, self.node, self.name = book, zone, node, name
        self.qtype, self.route, self.outcome = qtype, route, outcome

    def body(self, rdata: list[bytes], ttl_s: int, ede: bytes = b"") -> Body:
        """Records of the question's type at the question's name; NODATA where there are none."""
        if not rdata:
            return self.nodata(ttl_s, ede)
        records = b"".join(record(SELF, self.qtype, ttl_s, data) for data in rdata)
        return self._answer(len(rdata), records, ede)

    def alias(self, target: str, ttl_s: int, ede: bytes = b"") -> Body:
        """A CNAME answers every type: nothing else may stand beside it (RFC 1034, 3.6.2)."""
        writer = Writer(self.name)
        writer.name_record(self.name, Type.CNAME, ttl_s, name_from_text(target))
        return self._answer(1, writer.bytes(), ede)

    def least(self, ttl_s: int, ede: bytes = b"") -> Body:
        """ANY where no alias stands."""
        return self._answer(1, record(SELF, Type.HINFO, ttl_s, LEAST), ede)

    def nodata(self, ttl_s: int, ede: bytes = b"") -> Body:
        return negative(
            self.book, self.zone, self.name, self.qtype, Rcode.NOERROR, ttl_s=ttl_s, scope=self.route.scope, ede=ede
        )

    def servfail(self, ede: bytes) -> Body:
        tally = self.book.tally(self.zone, self.qtype, Rcode.SERVFAIL, self.outcome, None)
        return Body(Rcode.SERVFAIL, tally, ede=ede + stale(self.book), scope=self.route.scope)

    def _answer(self, count: int, records: bytes, ede: bytes) -> Body:
        demand = self.route if self.qtype in _DEMAND_TYPES else None
        tally = self.book.tally(self.zone, self.qtype, Rcode.NOERROR, self.outcome, demand)
        scope = self.route.scope
        return Body(Rcode.NOERROR, tally, answers=(count, records), ede=ede + stale(self.book), scope=scope)


def picked_body(
    book: AnswerBook, zone: Zone, node: Node, name: bytes, qtype: int, route: NameRoute, outcome: Outcome
) -> Body:
    """The answer for the networks that share an outcome."""
    question = _Question(book, zone, node, name, qtype, route, outcome)
    if outcome.refusal is not None:
        return _nobody(question, outcome.refusal)
    regions = [book.table.policy.regions[d.target.region] for d in outcome.decisions]
    first = regions[0].addresses
    if is_alias(first) and first.CNAME is not None:
        return question.alias(first.CNAME, route.ttl_s)
    if qtype == Type.ANY:
        return question.least(route.ttl_s)
    rdata: list[bytes] = []
    if qtype in (Type.A, Type.AAAA):
        rdata = [data for region in regions for data in address_records(region.addresses, qtype)]
    elif qtype == Type.TXT:
        rdata = [text_record(text) for text in route.name.txt]
        rdata += [text_record(f"region={d.target.region}") for d in outcome.decisions]
    elif qtype in (Type.HTTPS, Type.SVCB) and route.name.https:
        rdata = [data for region in regions if (data := service_record(region)) is not None]
    elif qtype == Type.CAA:
        rdata = list(node.caa)
    return question.body(list(dict.fromkeys(rdata)), route.ttl_s)


def _nobody(question: _Question, refusal: Refusal) -> Body:
    """No region is left. What does not depend on a region is still said; for the rest the policy decides."""
    name = question.route.name
    ttl_s = min(name.ttl_s, name.ttl_trouble_s)
    ede = _why(refusal)
    if question.qtype == Type.TXT and name.txt:
        return question.body([text_record(text) for text in name.txt], ttl_s, ede)
    if question.qtype == Type.CAA:
        return question.body(list(question.node.caa), ttl_s, ede)
    fallback = name.fallback if name.when_none == "fallback" else Addresses()
    if is_alias(fallback) and fallback.CNAME is not None and not question.node.apex:
        return question.alias(fallback.CNAME, ttl_s, ede)
    if question.qtype == Type.ANY:
        return question.least(ttl_s, ede)
    if name.when_none == "fallback":
        if question.qtype in (Type.A, Type.AAAA):
            return question.body(list(address_records(fallback, question.qtype)), ttl_s, ede)
        return question.nodata(ttl_s, ede)
    if name.when_none == "nodata" or question.qtype not in _PICKED_TYPES:
        return question.nodata(ttl_s, ede)
    return question.servfail(ede)


def _why(refusal: Refusal) -> bytes:
    """Filtered when policy alone keeps every region out; else no authority can be reached that may answer."""
    codes = sorted({rejected.rejection.code for rejected in refusal.rejected})
    permanent = bool(refusal.rejected) and all(rejected.rejection.permanent for rejected in refusal.rejected)
    text = "no region is left: " + (", ".join(codes) if not refusal.overloaded else "overloaded")
    if permanent and not refusal.overloaded:
        return extended_error(bodies.FILTERED, text)
    return extended_error(bodies.NO_REACHABLE_AUTHORITY, text)
