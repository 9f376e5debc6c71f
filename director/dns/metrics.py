"""What the responder counts: plain integers, added on the serving loop and read at scrape.

A `Tally` stands for all answers of one kind, so that a query costs one addition. Books of past plans give theirs up to
the `Counters` that outlive them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Literal, NamedTuple

from director.dns.wire import Rcode, Type
from director.metrics.catalog import DNS_BOUNDS_S

if TYPE_CHECKING:
    from director.core.decision import Decision
    from director.core.route import CompiledRoute

Transport = Literal["udp", "tcp"]

_TYPE_LABELS = {int(t): t.name for t in Type}
_RCODE_LABELS = {int(r): r.name for r in Rcode}


def type_label(qtype: int) -> str:
    """The type's name; `other` for those we do not serve, so that strangers cannot grow the metrics."""
    return _TYPE_LABELS.get(qtype, "other")


class Kind(NamedTuple):
    """The labels of an answer. `zone` is "" for names of no zone of ours."""

    zone: str
    type: str
    rcode: str


class Tally:
    """Answers of one kind that came from one outcome of one route, or from none."""

    __slots__ = ("decision", "kind", "route", "sent", "tcp", "udp")

    def __init__(
        self, zone: str, qtype: int, rcode: int, route: CompiledRoute | None = None, decision: Decision | None = None
    ) -> None:
        self.kind = Kind(zone, type_label(qtype), _RCODE_LABELS.get(rcode, str(rcode)))
        self.route = route
        """Set where an answer sends a client to a region: what counts as demand."""
        self.decision = decision
        self.udp = 0
        self.tcp = 0
        self.sent = 0
        """How much of `udp + tcp` has been counted as demand."""


class Counters:
    """Everything that is exported. Lives as long as the responder."""

    def __init__(self) -> None:
        self.answers: dict[tuple[Kind, Transport], int] = {}
        self.errors: dict[tuple[int, Transport], Tally] = {}
        self.dropped: dict[str, int] = {}
        """Queries that got silence or a cut answer, by the limit or the reason."""
        self.latency_counts = [0] * (len(DNS_BOUNDS_S) + 1)
        self.latency_sum_s = 0.0
        self.table_swaps = 0
        self.tcp_connections = 0
        self.tcp_accepted = 0

    def error(self, rcode: int, transport: Transport) -> None:
        """Count an answer that no book made: malformed queries, unknown opcodes, no plan."""
        tally = self.errors.get((rcode, transport))
        if tally is None:
            tally = self.errors[rcode, transport] = Tally("", 0, rcode)
        tally.udp += 1

    def drop(self, why: str, queries: int = 1) -> None:
        self.dropped[why] = self.dropped.get(why, 0) + queries

    def observe(self, queries: int, seconds: float) -> None:
        """Queries of one batch, none of which waited longer than this between the wake-up and its answer."""
        self.latency_counts[bisect_left(DNS_BOUNDS_S, seconds)] += queries
        self.latency_sum_s += queries * seconds

    def absorb(self, tallies: list[Tally]) -> None:
        """Take over the counts of a book that retires."""
        for tally in tallies:
            self._add(tally.kind, "udp", tally.udp)
            self._add(tally.kind, "tcp", tally.tcp)

    def _add(self, kind: Kind, transport: Transport, answers: int) -> None:
        if answers:
            key = (kind, transport)
            self.answers[key] = self.answers.get(key, 0) + answers

    def totals(self, live: list[Tally]) -> dict[tuple[Kind, Transport], int]:
        """Answers since start by kind and transport, those of the book in use included."""
        totals = Counters()
        totals.answers = dict(self.answers)
        totals.absorb(live)
        for (_, transport), tally in self.errors.items():
            totals._add(tally.kind, transport, tally.udp)
        return totals.answers
