"""Clients: L7s that ask for each request (or reuse an answer), and resolvers that ask DNS and keep the answer."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from hashlib import blake2b
from itertools import accumulate
from random import Random

from director.core.observations import Outcome, OutcomeClass
from director.core.policy import Policy
from director.sim.measure import Record
from director.sim.scenario import VERSION
from director.sim.steering import Ask, Choice
from director.sim.world.demand import Session, Stream
from director.sim.world.engine import Work
from director.sim.world.network import Network
from director.sim.world.site import Answer, Site

CONNECT_TIMEOUT_S = 1.0
"""What an L7 waits for a region that does not answer before it tries the next."""
NEGATIVE_TTL_S = 5.0

Choose = Callable[[Ask, int], Choice]
_OUTCOME: dict[Answer, OutcomeClass] = {"ok": "ok", "connect": "connect", "server": "server", "throttled": "throttled"}


class Outcomes:
    """What L7s saw, by reporter, region, model and class, until the planner takes it."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str, OutcomeClass], int] = {}
        self._retry_after: dict[str, float | None] = {}

    def add(self, reporter: str, region: str, model: str, outcome: OutcomeClass, retry_after_s: float | None) -> None:
        key = (reporter, region, model, outcome)
        self._counts[key] = self._counts.get(key, 0) + 1
        if outcome == "throttled":
            self._retry_after[region] = retry_after_s

    def take(self) -> tuple[Outcome, ...]:
        found = tuple(
            Outcome(
                reporter, region, model, VERSION, outcome, count,
                self._retry_after.get(region) if outcome == "throttled" else None,
            )
            for (reporter, region, model, outcome), count in self._counts.items()
        )  # fmt: skip
        self._counts = {}
        return found


class Clients:
    """Everybody who asks in one stream, between the policy under comparison and the regions."""

    def __init__(
        self, stream: Stream, policy: Policy, network: Network, sites: dict[str, Site], record: Record, seed: str
    ) -> None:
        self.stream = stream
        self.outcomes = Outcomes()
        demand = stream.demand
        self._demand, self._network, self._sites = demand, network, sites
        self._permitted = frozenset(network.permitted(demand))
        self._rtt_s = {region: network.real_ms(demand.zone, region) / 1000.0 for region in sites}
        self._price = {
            region: policy.regions[region].price_per_mtok
            + policy.egress_price_per_mtok.get(demand.zone, {}).get(region, 0.0)
            for region in sites
        }
        self._record, self._mine = record, record.streams[stream.name]
        self._random = Random(f"{seed}/{stream.name}/clients")
        self._edges = [Edge(f"edge-{i}", (i + 0.5) / demand.edge.count) for i in range(demand.edge.count)]
        self._reuse_s = demand.edge.reuse_s
        self._resolvers = Resolving(stream, policy, self._random) if demand.resolvers is not None else None
        self._number = 0

    def request(self, now_s: float, now_ms: int, choose: Choose) -> None:
        """One arrival: decide, and knock until a region serves it or the attempts are used up."""
        stream, second = self.stream, int(now_s)
        self._number += 1
        prompt, generated = stream.next_lengths()
        session = self._session(now_s)
        self._mine.asked[second] += 1
        edge = self._edges[self._number % len(self._edges)]
        choice = self._choice(now_s, now_ms, choose, session, edge, prompt + generated)
        self._count(choice, second)
        if choice.region is None:
            self._mine.refused[second] += 1
            return
        if session is not None:
            if session.region is not None:
                self._mine.turns[second] += 1
                was = self._sites[session.region]
                self._mine.moved[second] += session.region != choice.region and not was.troubled
            session.token, session.region = choice.affinity, choice.region
        number = session.number if session is not None else -1
        work = Work(self._number, prompt, generated, now_s, number, stream.index)
        if not self._knock(work, choice, edge, now_s, second):
            self._mine.failed[second] += 1

    def settle(self, work: Work, region: str, record_second: int) -> None:
        """A request of this stream ended: its times and its price."""
        mine = self._mine
        mine.done_arrived_s.append(work.arrived_s)
        mine.e2e_s.append(work.done_s - work.arrived_s + work.overhead_s)
        self._record.cost[record_second] += (work.prompt + work.generated) * self._price[region] / 1e6

    def first_token(self, work: Work) -> None:
        self._mine.arrived_s.append(work.arrived_s)
        self._mine.ttft_s.append(work.first_token_s - work.arrived_s + work.overhead_s)

    def _session(self, now_s: float) -> Session | None:
        pool = self.stream.pool
        if pool is None:
            return None
        session = pool.turn(now_s)
        if session is None:
            session = Session(self._number * 64 + self.stream.index, f"{self.stream.name}-{self._number}", now_s)
            pool.begin(session)
        return session

    def _choice(
        self, now_s: float, now_ms: int, choose: Choose, session: Session | None, edge: Edge, tokens: float
    ) -> Choice:
        if self._resolvers is not None:
            return self._resolvers.choice(now_s, now_ms, choose, self._record)
        key = session.key if session is not None else f"{self.stream.name}-{self._number}"
        if self._reuse_s and (session is None or session.token is None) and now_s < edge.until_s:
            return edge.reuse(key)
        token = session.token if session is not None else None
        before = session.region if session is not None else None
        choice = choose(Ask(self.stream, key, self.stream.estimate(tokens), token, before), now_ms)
        if self._reuse_s and choice.region is not None and choice.reason != "affinity":
            edge.keep(choice, now_s + self._reuse_s)
        return choice

    def _knock(self, work: Work, choice: Choice, edge: Edge, now_s: float, second: int) -> bool:
        demand, record = self._demand, self._record
        assert choice.region is not None
        attempts = (choice.region, *choice.fallbacks)[: demand.edge.attempts if self._resolvers is None else 1]
        for region in attempts:
            site = self._sites[region]
            record.forbidden += region not in self._permitted
            record.regions[region].attempts[second] += 1
            work.overhead_s += self._rtt_s[region]
            answer = site.offer(work, demand.model, now_s, edge.position)
            if demand.edge.report_outcomes and self._resolvers is None:
                self.outcomes.add(edge.name, region, demand.model, _OUTCOME[answer], site.retry_after_s)
            if answer == "ok":
                return True
            if answer == "connect":
                work.overhead_s += CONNECT_TIMEOUT_S
        return False

    def _count(self, choice: Choice, second: int) -> None:
        mine = self._mine
        bound = choice.reason == "affinity"
        mine.bound[second] += bound
        for region, share in choice.shares.items():
            mine.expected[region][second] += share
            if not bound:
                mine.expected_new[region][second] += share
        mine.reason(choice.reason, self._record.seconds)[second] += 1
        if choice.region is not None:
            mine.went[choice.region][second] += 1
            if not bound:
                mine.new[choice.region][second] += 1


class Edge:
    """One L7. `position` in (0, 1) is its place among all of them."""

    __slots__ = ("_choice", "_cumulative", "_regions", "name", "position", "until_s")

    def __init__(self, name: str, position: float) -> None:
        self.name = name
        self.position = position
        self.until_s = -1.0
        self._choice: Choice | None = None
        self._regions: list[str] = []
        self._cumulative: list[float] = []

    def keep(self, choice: Choice, until_s: float) -> None:
        self.until_s, self._choice = until_s, choice
        self._regions = list(choice.shares)
        self._cumulative = list(accumulate(choice.shares.values()))

    def reuse(self, key: str) -> Choice:
        """Pick among the kept shares by the key's own hash, as the contract asks of an L7 that caches. The refused part
        is refused again, and the kept token goes only with those who enter the region that it names."""
        kept = self._choice
        assert kept is not None
        at = bisect(self._cumulative, _hashed(key) * max(1.0, self._cumulative[-1]))
        if at >= len(self._regions):
            return kept._replace(region=None, affinity=None)
        region = self._regions[at]
        others = tuple(each for each in (*self._regions, *kept.fallbacks) if each != region)
        return kept._replace(region=region, fallbacks=others, affinity=kept.affinity if region == kept.region else None)


def _hashed(key: str) -> float:
    """In [0, 1), the same for a key at every L7."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) / 2.0**64


class Resolving:
    """Resolvers of unequal size. Their clients reconnect for each request and follow the answer that is kept."""

    TABLE = 8192

    def __init__(self, stream: Stream, policy: Policy, random: Random) -> None:
        spec = stream.demand.resolvers
        assert spec is not None
        self._stream = stream
        self._ttl_s = spec.ttl_s
        self._tokens = policy.models[stream.demand.model].estimated_tokens
        sizes = [1.0 / (rank + 1) ** spec.zipf for rank in range(spec.count)]
        cumulative = list(accumulate(sizes))
        self._table = [
            min(bisect(cumulative, (i + 0.5) / self.TABLE * cumulative[-1]), spec.count - 1) for i in range(self.TABLE)
        ]
        self._random = random
        self._kept: list[Choice | None] = [None] * spec.count
        # Resolvers did not all start at once: a first answer is kept for a part of the TTL.
        self._until_s = [0.0] * spec.count
        self._first = [random.random() for _ in range(spec.count)]

    def choice(self, now_s: float, now_ms: int, choose: Choose, record: Record) -> Choice:
        which = self._table[int(self._random.random() * self.TABLE)]
        kept = self._kept[which]
        if kept is not None and now_s < self._until_s[which]:
            return kept
        ask = Ask(self._stream, f"{self._stream.name}-198.18.{which}.0/24", self._tokens, dns=True)
        record.dns_queries += 1
        choice = choose(ask, now_ms)
        ttl_s = self._ttl_s if choice.region is not None else NEGATIVE_TTL_S
        self._until_s[which] = now_s + ttl_s * (self._first[which] if kept is None else 1.0)
        shares = {choice.region: 1.0} if choice.region is not None else {}
        self._kept[which] = choice = choice._replace(shares=shares, fallbacks=())
        return choice
