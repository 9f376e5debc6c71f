"""The policies that the director is compared with. Each is what people run, written as well as it can be.

All of them respect residency, skip regions whose report is old or says down, and keep a session where it was. They see
the same reports as the director, just as late. None of them sees demand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Mapping
from itertools import accumulate
from random import Random

from director.core.events import Event
from director.core.observations import ReceivedReport
from director.core.report import DeploymentReport
from director.sim.scenario import Demand, Scenario
from director.sim.steering import Ask, Choice, Inputs
from director.sim.world.network import Network

_NONE: dict[str, float] = {}


class Baseline(ABC):
    """Weights per stream, worked out anew at each tick; requests are spread over them at random."""

    name = ""

    def __init__(self, scenario: Scenario, network: Network, nominal: Mapping[str, float], seed: str) -> None:
        """`nominal`: region → requests/s at the start."""
        self.policy = scenario.policy
        self.events: list[Event] = []
        self.plans = 0
        self.nominal = nominal
        self.network = network
        self.configured = scenario.weights or nominal
        self._random = Random(f"{seed}/{self.name}")
        self._reports: Mapping[str, ReceivedReport] = {}
        self._now_ms = 0
        self._spread: dict[int, tuple[dict[str, float], list[str], list[float]]] = {}

    @abstractmethod
    def weigh(self, regions: list[str], demand: Demand) -> dict[str, float]:
        """Weights over regions that are up and permitted, nearest first. At least one of them is positive."""

    def choose(self, ask: Ask, now_ms: int) -> Choice:
        shares, regions, cumulative = self._spread.get(ask.stream.index) or self._work_out(ask)
        if not regions:
            return Choice(None, "refused", _NONE)
        if ask.region_before in regions:
            return Choice(ask.region_before, "affinity", {ask.region_before: 1.0}, self._others(ask, ask.region_before))
        region = self.pick(regions, cumulative)
        return Choice(region, "home" if region == regions[0] else "overflow", shares, self._others(ask, region))

    def pick(self, regions: list[str], cumulative: list[float]) -> str:
        at = bisect(cumulative, self._random.random() * cumulative[-1])
        return regions[min(at, len(regions) - 1)]

    def flush(self, now_ms: int) -> None:
        """Demand is nothing to a policy that only reads reports."""
        return

    def tick(self, inputs: Inputs) -> None:
        self._reports = inputs.reports
        self._now_ms = inputs.now_ms
        self._spread.clear()

    def marks(self) -> dict[str, float]:
        return {}

    def _work_out(self, ask: Ask) -> tuple[dict[str, float], list[str], list[float]]:
        demand = ask.stream.demand
        regions = [each for each in self.network.permitted(demand) if self.is_up(each, demand.model)]
        weights = self.weigh(regions, demand) if regions else {}
        regions = [each for each in regions if weights.get(each, 0.0) > 0.0]
        total = sum(weights[each] for each in regions)
        shares = {each: weights[each] / total for each in regions}
        found = (shares, regions, list(accumulate(shares[each] for each in regions)))
        self._spread[ask.stream.index] = found
        return found

    def _others(self, ask: Ask, region: str) -> tuple[str, ...]:
        return tuple(each for each in self.network.permitted(ask.stream.demand) if each != region)

    def is_up(self, region: str, model: str) -> bool:
        received = self._reports.get(region)
        if received is None or self._now_ms - received.received_at_ms > self.policy.planner.lost_after_s * 1000:
            return False
        reported = self.reported(region, model)
        return received.report.health != "down" and reported is not None and reported.replicas.ready > 0

    def reported(self, region: str, model: str) -> DeploymentReport | None:
        received = self._reports.get(region)
        deployments = received.report.deployments if received is not None else ()
        return next((each for each in deployments if each.model == model), None)

    def utilisation(self, region: str, model: str) -> float:
        """Requests inside ÷ slots, as last reported."""
        reported = self.reported(region, model)
        if reported is None or not reported.max_running:
            return 0.0
        return ((reported.running or 0.0) + (reported.waiting or 0.0)) / reported.max_running


class RoundRobin(Baseline):
    """Every region in turn."""

    name = "round_robin"
    _turn = 0

    def weigh(self, regions: list[str], demand: Demand) -> dict[str, float]:
        return dict.fromkeys(regions, 1.0)

    def pick(self, regions: list[str], cumulative: list[float]) -> str:
        self._turn += 1
        return regions[self._turn % len(regions)]


class Nearest(Baseline):
    """The nearest region, whatever its load: latency-based DNS."""

    name = "nearest"

    def weigh(self, regions: list[str], demand: Demand) -> dict[str, float]:
        return {regions[0]: 1.0}


class LeastLoaded(Baseline):
    """The region with the lowest utilisation in its newest report."""

    name = "least_loaded"

    def weigh(self, regions: list[str], demand: Demand) -> dict[str, float]:
        return {min(regions, key=lambda each: self.utilisation(each, demand.model)): 1.0}


class Ramp(Baseline):
    """Nearest first; each region sheds in proportion as its reported utilisation goes from 0.8 to 1: load feedback."""

    name = "ramp"
    FROM, TO = 0.8, 1.0

    def weigh(self, regions: list[str], demand: Demand) -> dict[str, float]:
        left, weights = 1.0, {}
        for region in regions:
            shed = (self.utilisation(region, demand.model) - self.FROM) / (self.TO - self.FROM)
            weights[region] = left * (1.0 - min(1.0, max(0.0, shed)))
            left -= weights[region]
        if left > 0.0:
            weights[regions[0]] += left
        return weights


class QueueTerm(Baseline):
    """The lowest round trip + first token + estimated wait: latency-weighted routing with a queue term."""

    name = "queue_term"

    def weigh(self, regions: list[str], demand: Demand) -> dict[str, float]:
        trips = self.network.believed_ms(demand.zone)
        return {min(regions, key=lambda each: self._score_ms(each, demand, trips)): 1.0}

    def _score_ms(self, region: str, demand: Demand, trips: Mapping[str, float]) -> float:
        reported = self.reported(region, demand.model)
        if reported is None:
            return float("inf")
        first_token_ms = reported.ttft_ms.p50 if reported.ttft_ms is not None else None
        completed = reported.completed.requests_per_s if reported.completed is not None else None
        wait_ms = 1000.0 * (reported.waiting or 0.0) / completed if completed else 0.0
        return trips[region] + (first_token_ms or 0.0) + wait_ms


class Static(Baseline):
    """Weights that someone configured: by nominal capacity where the scenario gives none."""

    name = "static"

    def weigh(self, regions: list[str], demand: Demand) -> dict[str, float]:
        weights = {each: self.configured.get(each, 0.0) for each in regions}
        return weights if any(weights.values()) else dict.fromkeys(regions, 1.0)


BASELINES: dict[str, type[Baseline]] = {
    each.name: each for each in (RoundRobin, Nearest, LeastLoaded, Ramp, QueueTerm, Static)
}
