"""Where a name's route leads: one decision per client network and plan, shared by every record type of the name."""

from __future__ import annotations

from collections.abc import Mapping

from director.core.decide import decide_route
from director.core.decision import Decision, Refusal
from director.core.pick import rank
from director.core.policy import Addresses, DnsName, Policy
from director.core.request import Request
from director.core.route import CompiledRoute
from director.core.table import RoutingTable
from director.dns.networks import Network, Scope

SHARE_MOVED_MIN = 0.01
"""Shares that differ by less than a hundredth altogether stand still: nobody's TTL need shrink for it."""


class Outcome:
    """What some networks of a route get: the regions in order, or a refusal. Compared by identity."""

    __slots__ = ("decisions", "refusal")

    def __init__(self, decisions: tuple[Decision, ...], refusal: Refusal | None) -> None:
        self.decisions = decisions
        self.refusal = refusal


class NameRoute:
    """One name of the policy for one client zone, under one plan."""

    __slots__ = (
        "_by_winner",
        "_exclude",
        "_now_ms",
        "_outcomes",
        "_table",
        "aliases",
        "name",
        "route",
        "scope",
        "ttl_s",
    )

    def __init__(
        self, table: RoutingTable, name: DnsName, zone: str, now_ms: int, *, apex: bool, moving: bool | None = None
    ) -> None:
        self._table = table
        self._now_ms = now_ms
        self.name = name
        self.route = compile_route(table, name, zone)
        self._exclude = unanswerable(table.policy, apex=apex)
        self.aliases = frozenset(r for r, region in table.policy.regions.items() if is_alias(region.addresses))
        self.scope = Scope.ZONE if len(self.route.weights) == 1 else Scope.NETWORK
        short = moving or self.route.troubled()
        self.ttl_s = min(name.ttl_s, name.ttl_trouble_s) if short else name.ttl_s
        self._outcomes: dict[tuple[tuple[str, str], ...], Outcome] = {}
        # Who wins the key decides everything, unless further answers or excluded regions depend on the rest of its
        # order: then each network is decided for itself.
        self._by_winner: dict[int, Outcome] | None = {} if name.answers == 1 and not self._exclude else None

    def pick(self, network: Network) -> Outcome:
        """The same network gets the same outcome for as long as the plan lasts."""
        if self._by_winner is None:
            return self._decide(network.text)
        winner = rank(network.key_hash, self.route.weights)[0]
        found = self._by_winner.get(winner)
        if found is None:
            found = self._by_winner[winner] = self._decide(network.text)
        return found

    def _decide(self, key: str) -> Outcome:
        first = decide_route(self._table, self.route, key, self._now_ms, None, self._exclude)
        if isinstance(first, Refusal):
            return self._outcomes.setdefault((), Outcome((), first))
        decisions = [first]
        if self.name.answers > 1 and first.target.region not in self.aliases:
            self._add_answers(decisions, key)
        same = tuple((d.target.region, d.target.version) for d in decisions)
        return self._outcomes.get(same) or self._outcomes.setdefault(same, Outcome(tuple(decisions), None))

    def _add_answers(self, decisions: list[Decision], key: str) -> None:
        """Further regions that hold a share, as the key ranks them. An alias cannot stand beside others."""
        exclude = (*self._exclude, *self.aliases)
        while len(decisions) < self.name.answers:
            exclude = (*exclude, decisions[-1].target.region)
            further = decide_route(self._table, self.route, key, self._now_ms, None, exclude)
            if isinstance(further, Refusal) or further.target.region not in self.route.shares:
                return
            decisions.append(further)


def compile_route(table: RoutingTable, name: DnsName, zone: str) -> CompiledRoute:
    request = Request(name.tenant, name.model, zone, "", version=name.version, adapter=name.adapter)
    return table.route(table.route_key(request))


def is_alias(addresses: Addresses) -> bool:
    """A region that is reached by another name. Addresses win over a CNAME beside them."""
    return addresses.CNAME is not None and not (addresses.A or addresses.AAAA)


def unanswerable(policy: Policy, *, apex: bool) -> tuple[str, ...]:
    """Regions that a DNS answer cannot name: without any address; at an apex, those with an alias (RFC 1034, 3.6.2)."""
    return tuple(
        name
        for name, region in policy.regions.items()
        if region.addresses.empty or (apex and is_alias(region.addresses))
    )


def shares_moved(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether more than a hundredth of the traffic goes elsewhere."""
    moved = sum(abs(before.get(r, 0.0) - after.get(r, 0.0)) for r in before.keys() | after.keys())
    return moved / 2 > SHARE_MOVED_MIN
