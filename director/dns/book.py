"""All prepared answers of one plan. A new plan is a new book; a query keeps the one it began with.

An entry stands for a question (name and type). Most are the same for everybody (`fixed`); those that name a region
depend on the client's network, by way of the pick of its route. Everything is made on first use and kept.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from director.core.policy import DnsName
from director.core.request import RouteKey
from director.core.table import RoutingTable
from director.dns import picked, plain
from director.dns.body import Body
from director.dns.memo import Memo
from director.dns.metrics import Tally, type_label
from director.dns.networks import NETWORKS_MAX, Network, Networks, Scope
from director.dns.routes import NameRoute, Outcome, compile_route, shares_moved
from director.dns.view import Zones
from director.dns.wire import CLASS_IN, Type
from director.dns.zone import Node, Zone, ZoneTree

STRANGERS_MAX = 1_000
"""Entries kept for names and types that the policy does not list: wildcards' children, NXDOMAIN, odd types."""
PICKS_MAX = 4 * NETWORKS_MAX
"""Of all entries together."""
_OWN_TYPES = frozenset(
    (Type.A, Type.AAAA, Type.NS, Type.SOA, Type.TXT, Type.CNAME, Type.HTTPS, Type.SVCB, Type.CAA, Type.DS)
)


class Moves(NamedTuple):
    """The shares of a route, and when they last moved."""

    shares: Mapping[str, float]
    moved_at_ms: int | None


class Entry:
    """The answers to one question. `fixed` is None where they depend on the client's network."""

    __slots__ = ("_book", "_by_outcome", "_name", "_node", "_qtype", "_zone", "fixed", "picks")

    def __init__(self, book: AnswerBook, zone: Zone | None, node: Node | None, name: bytes, qtype: int) -> None:
        self._book, self._zone, self._node, self._name, self._qtype = book, zone, node, name, qtype
        self.picks: dict[Network, Body] = {}
        self._by_outcome: dict[Outcome, Body] = {}
        self.fixed: Body | None = None
        if zone is None or node is None or not picked.depends_on_pick(book.table.policy, node, qtype):
            self.fixed = plain.fixed_body(book, zone, node, name, qtype)

    def body(self, network: Network) -> Body:
        found = self.fixed or self.picks.get(network)
        return found if found is not None else self.pick(network)

    def pick(self, network: Network) -> Body:
        """The answer for one network, from the route's pick."""
        assert self._node is not None
        assert self._zone is not None
        route = self._book.name_route(self._node, network.zone)
        outcome = route.pick(network)
        found = self._by_outcome.get(outcome)
        if found is None:
            found = picked.picked_body(self._book, self._zone, self._node, self._name, self._qtype, route, outcome)
            self._by_outcome[outcome] = found
        self._book.count_pick()
        self.picks[network] = found
        return found


class AnswerBook:
    """The prepared answers of one (table, zones, static). `known` and `strangers` may be read by the hot path."""

    def __init__(
        self, table: RoutingTable, zones: Zones, *, static: bool, now_ms: int, previous: AnswerBook | None = None
    ) -> None:
        self.table = table
        self.zones = zones
        self.static = static
        self.now_ms = now_ms
        same_policy = previous is not None and previous.table.policy is table.policy and previous.zones is zones
        # What comes from the policy alone outlives the plan.
        self.tree: ZoneTree = previous.tree if same_policy and previous else ZoneTree(table.policy)
        self.networks: Networks = previous.networks if same_policy and previous else Networks(zones)
        self.known: dict[bytes, Entry] = {}
        """Question bytes, name in lower case → entry, for the policy's own names and types."""
        self.strangers: Memo[bytes, Entry] = Memo(STRANGERS_MAX)
        self.expires_ms: int | None = None
        """When TTLs may grow again because shares have stood still: time for another book of the same plan."""
        self.tallies: dict[tuple[str, str, int, Outcome | None], Tally] = {}
        self.negatives: dict[tuple[Tally, int, int, Scope, bytes], Body] = {}
        """Negative answers by kind, length of the name, TTL, scope and extended error."""
        self._routes: dict[tuple[bytes, str], NameRoute] = {}
        self._moves: dict[RouteKey, Moves] = dict(previous._moves) if previous is not None else {}
        self._picks = 0

    def current(self, table: RoutingTable, zones: Zones, *, static: bool, now_ms: int) -> bool:
        """Whether this book still tells the truth."""
        return (
            table is self.table
            and zones is self.zones
            and static == self.static
            and (self.expires_ms is None or now_ms < self.expires_ms)
        )

    def entry(self, name: bytes, qtype: int) -> Entry:
        """The entry of a lower-case name and a type, of class IN."""
        question = name + struct.pack("!HH", qtype, CLASS_IN)
        found = self.known.get(question) or self.strangers.get(question)
        if found is None:
            zone = self.tree.zone_of(name, above=qtype == Type.DS)
            node = zone.find(name) if zone is not None else None
            found = Entry(self, zone, node, name, qtype)
            if node is not None and node.name == name and qtype in _OWN_TYPES:
                self.known[question] = found
            else:
                self.strangers.put(question, found)
        return found

    def name_route(self, node: Node, zone: str) -> NameRoute:
        """The compiled route of a policy name for a client zone."""
        found = self._routes.get((node.name, zone))
        if found is None:
            assert node.route is not None
            moving = self._moving(node.route, zone)
            found = NameRoute(self.table, node.route, zone, self.now_ms, apex=node.apex, moving=moving)
            self._routes[node.name, zone] = found
        return found

    def tally(
        self, zone: Zone | None, qtype: int, rcode: int, outcome: Outcome | None, route: NameRoute | None
    ) -> Tally:
        """The counter for answers of one kind; with a route where they are demand for a region."""
        key = (zone.text if zone is not None else "", type_label(qtype), rcode, outcome)
        found = self.tallies.get(key)
        if found is None:
            compiled = route.route if route is not None and outcome is not None and outcome.decisions else None
            decision = outcome.decisions[0] if compiled is not None and outcome is not None else None
            found = self.tallies[key] = Tally(key[0], qtype, rcode, compiled, decision)
        return found

    def retire(self) -> None:
        """Let go of everything at once: entries and book hold each other, and would wait for the cycle collector."""
        self.known.clear()
        self.strangers.clear()
        self._routes.clear()

    def count_pick(self) -> None:
        """Keep what strangers can make us remember within bounds, all entries together."""
        self._picks += 1
        if self._picks > PICKS_MAX:
            self._picks = 0
            for entry in (*self.known.values(), *self.strangers.young.values(), *self.strangers.old.values()):
                entry.picks.clear()

    def _moving(self, name: DnsName, zone: str) -> bool:
        """Whether the route's shares moved less than one TTL ago; notes when that will be over."""
        route = compile_route(self.table, name, zone)
        before = self._moves.get(route.key)
        if before is None:
            self._moves[route.key] = Moves(route.shares, None)
            return False
        moved_at_ms = self.now_ms if shares_moved(before.shares, route.shares) else before.moved_at_ms
        self._moves[route.key] = Moves(route.shares, moved_at_ms)
        if moved_at_ms is None:
            return False
        still_ms = moved_at_ms + name.ttl_s * 1000
        if self.now_ms >= still_ms:
            return False
        self.expires_ms = min(self.expires_ms or still_ms, still_ms)
        return True
