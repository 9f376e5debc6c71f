"""The director itself, as the world meets it: the real `step`, `RoutingTable`, `decide_route` and demand counter."""

from __future__ import annotations

from director.core.affinity import KeyRing
from director.core.decide import decide_route
from director.core.decision import Refusal
from director.core.events import Event
from director.core.flows import Memo
from director.core.invariants import check_invariants
from director.core.observations import DemandSample, Observations
from director.core.policy import Policy
from director.core.request import Request
from director.core.route import CompiledRoute
from director.core.state import PlannerState
from director.core.step import step
from director.core.table import RoutingTable
from director.replica.demand import DemandCounter
from director.sim.steering import Ask, Choice, Inputs
from director.sim.world.demand import Stream

_KEYRING = KeyRing("sim", {"sim": b"simulated-affinity-key-32-bytes!"})
_NONE: dict[str, float] = {}


class Director:
    """One replica and one planner. The plan is in use from the tick that made it."""

    name = "director"

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.state = PlannerState()
        self.table: RoutingTable | None = None
        self.events: list[Event] = []
        self.plans = 0
        self._epoch = 0
        self._memo = Memo()
        self._counter = DemandCounter()
        self._samples: list[DemandSample] = []
        self._routes: dict[int, tuple[RoutingTable, CompiledRoute]] = {}
        self._flushed_ms: int | None = None

    def choose(self, ask: Ask, now_ms: int) -> Choice:
        table = self.table
        if table is None:
            return Choice(None, "not_ready", _NONE)
        route = self.route(ask.stream)
        decision = decide_route(table, route, ask.key, now_ms, ask.affinity, ask.exclude)
        if isinstance(decision, Refusal):
            self._counter.refused(route, ask.tokens)
            return Choice(None, "overloaded" if decision.overloaded else "refused", route.shares)
        region = decision.target.region
        bound = decision.affinity_seen in ("honoured", "released") and ask.affinity is not None
        presented = ask.affinity.split(".")[2] if bound and ask.affinity is not None else None
        self._counter.decided(route, decision, ask.tokens, presented)
        shares = {region: 1.0} if decision.reason == "affinity" else decision.shares
        fallbacks = tuple(target.region for target in decision.fallbacks)
        return Choice(region, decision.reason, shares, fallbacks, decision.affinity_token)

    def route(self, stream: Stream) -> CompiledRoute:
        table = self.table
        assert table is not None
        known = self._routes.get(stream.index)
        if known is not None and known[0] is table:
            return known[1]
        demand = stream.demand
        request = Request(
            tenant=demand.tenant, model=demand.model, client_zone=demand.zone, key="", adapter=demand.adapter,
            residency=demand.residency,
        )  # fmt: skip
        route = table.route(table.route_key(request))
        self._routes[stream.index] = (table, route)
        return route

    def flush(self, now_ms: int) -> None:
        span_ms = now_ms - self._flushed_ms if self._flushed_ms is not None else 1000
        self._flushed_ms = now_ms
        sample = self._counter.take("replica-1", now_ms, span_ms)
        if sample is not None:
            self._samples.append(sample)

    def tick(self, inputs: Inputs) -> None:
        observations = Observations(
            reports=tuple(inputs.reports.values()),
            demand=tuple(self._samples),
            operators=inputs.operators,
            probes=inputs.probes,
            outcomes=inputs.outcomes,
            policy_version=1,
        )
        self._samples.clear()
        result = step(self.state, observations, self.policy, inputs.now_ms, previous_epoch=self._epoch, memo=self._memo)
        self.state = result.state
        self.events.extend(result.events)
        if result.plan is None:
            return
        check_invariants(result.plan, self.policy)
        self.plans += 1
        self._epoch = result.plan.epoch
        self.table = RoutingTable(result.plan, self.policy, _KEYRING, previous=self.table)

    def marks(self) -> dict[str, float]:
        if self.table is None:
            return {}
        out = {"static": float(self.table.plan.static)}
        for each in self.table.plan.deployments:
            out[f"admit_home/{each.region}"] = each.admit_home
            out[f"capacity/{each.region}"] = each.capacity_tokens_per_s
            out[f"trim/{each.region}"] = each.trim
            out[f"release/{each.region}"] = each.release
            out[f"open/{each.region}"] = float(each.breaker == "open")
            out[f"guests/{each.region}"] = sum(each.admit_overflow)
        return out
