"""One run: a scenario, a policy, a seed. Discrete events on a heap; arrivals drawn a second ahead and merged with them.

Order within a run is fixed by time and then by the order of scheduling, and every random stream has a seed of its own,
so the same scenario, policy and seed give the same figures to the last digit, and adding a policy changes no other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from random import Random
from time import perf_counter

from director.core.observations import OperatorSetting, ProbeResult, ReceivedReport
from director.sim.baselines import BASELINES
from director.sim.measure import Record
from director.sim.ours import Director
from director.sim.scenario import Scenario
from director.sim.steering import Inputs, Steering
from director.sim.world import faults
from director.sim.world.clients import Clients
from director.sim.world.demand import Stream
from director.sim.world.network import Network
from director.sim.world.site import Site, nominal_capacity

EPOCH_MS = 1_800_000_000_000
"""The simulated database's clock at second 0."""
TICK_AFTER_S = 0.35
"""A tick comes so long after the second: demand rows travel through the database."""
PROBE_EVERY_S = 5.0

Progress = Callable[[int], None]


class Run:
    def __init__(self, scenario: Scenario, policy: str) -> None:
        seed = f"{scenario.name}/{scenario.seed}"
        self.scenario = scenario
        network = Network(scenario.policy, scenario.rtt_ms)
        permitted = {name: network.permitted(demand) for name, demand in scenario.demand.items()}
        self.record = Record(scenario, policy, permitted)
        self.sites = {region: Site(region, scenario, seed) for region in scenario.fleet}
        self.streams = streams_of(scenario, seed)
        self.clients = [
            Clients(stream, scenario.policy, network, self.sites, self.record, seed) for stream in self.streams
        ]
        nominal = {
            region: sum(engine.slots for engine in site.engines.values()) * 1.0 for region, site in self.sites.items()
        }
        self.steering: Steering = (
            Director(scenario.policy)
            if policy == Director.name
            else BASELINES[policy](scenario, network, nominal, seed)
        )
        self._reports: dict[str, ReceivedReport] = {}
        self._operators: dict[str, OperatorSetting] = {}
        self._probes: list[ProbeResult] = []
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._scheduled = 0
        self._random = Random(f"{seed}/reports")

    def play(self, progress: Progress | None = None) -> Record:
        """Run from second 0 to the end. `progress` is told each second that ended."""
        began = perf_counter()
        self._prepare()
        choose = self.steering.choose
        for second in range(self.record.seconds):
            arrivals = [
                (at_s, client.stream.index, client)
                for client in self.clients
                for at_s in client.stream.arrivals(second)
            ]
            arrivals.sort(key=_by_time)
            for at_s, _, client in arrivals:
                if self._heap[0][0] <= at_s:
                    self._events_until(at_s)
                client.request(at_s, EPOCH_MS + int(at_s * 1000.0), choose)
            self._events_until(second + 1.0)
            if progress is not None:
                progress(second)
        self._conclude()
        self.record.wall_s = perf_counter() - began
        return self.record

    # -- events -----------------------------------------------------------------------------------------------------

    def _at(self, at_s: float, what: Callable[[float], None]) -> None:
        self._scheduled += 1
        heappush(self._heap, (at_s, self._scheduled, what))

    def _events_until(self, until_s: float) -> None:
        while self._heap[0][0] <= until_s:
            at_s, _, what = heappop(self._heap)
            what(at_s)

    def _prepare(self) -> None:
        reports = self.scenario.reports
        for i, region in enumerate(self.sites):
            self._report(region, 0.0, first=True)
            every_s = reports.regions.get(region, reports.interval_s)
            self._at(every_s * (i + 1) / (len(self.sites) + 1), partial(self._report, region))
        for fault in self.scenario.faults:
            for region in fault.regions:
                site = self.sites[region]
                self._at(fault.at_s, self._losing(faults.begin(fault, site)))
                if fault.until_s is not None:
                    self._at(fault.until_s, self._losing(faults.end(fault, site)))
                if fault.kind == "drain":
                    self._at(fault.at_s, partial(self._operate, faults.drain_setting(fault, region, EPOCH_MS)))
                    if fault.until_s is not None:
                        self._at(fault.until_s, partial(self._undrain, region))
        self._at(1.0, self._second_ended)
        if self.scenario.probes:
            self._at(PROBE_EVERY_S / 2.0, self._probe)
        self._tick(0.0)
        self._at(1.0 + TICK_AFTER_S, self._tick_again)

    def _losing(self, change: faults.Change) -> Callable[[float], None]:
        def apply(at_s: float) -> None:
            self.record.lost += change(at_s)

        return apply

    def _operate(self, setting: OperatorSetting, _at_s: float) -> None:
        self._operators[setting.region] = setting

    def _undrain(self, region: str, _at_s: float) -> None:
        self._operators.pop(region, None)

    def _report(self, region: str, at_s: float, *, first: bool = False) -> None:
        site, spec = self.sites[region], self.scenario.reports
        every_s = spec.regions.get(region, spec.interval_s)
        if not first:
            self._at(at_s + every_s, partial(self._report, region))
        if site.silent:
            return
        report = site.report(at_s, every_s)
        if self._random.random() < spec.drop:
            return
        delay_s = 0.0 if first else spec.delay_s

        def arrive(now_s: float) -> None:
            self._reports[region] = ReceivedReport(region, EPOCH_MS + int(now_s * 1000.0), report)

        if first:
            arrive(at_s)
        else:
            self._at(at_s + delay_s, arrive)

    def _probe(self, at_s: float) -> None:
        now_ms = EPOCH_MS + int(at_s * 1000.0)
        self._probes += [ProbeResult("replica-1", region, now_ms, not site.dark) for region, site in self.sites.items()]
        self._at(at_s + PROBE_EVERY_S, self._probe)

    def _tick_again(self, at_s: float) -> None:
        self._at(at_s + 1.0, self._tick_again)
        self._tick(at_s)

    def _tick(self, at_s: float) -> None:
        outcomes = tuple(outcome for client in self.clients for outcome in client.outcomes.take())
        operators = tuple(self._operators.values())
        now_ms = EPOCH_MS + int(at_s * 1000.0)
        self.steering.tick(Inputs(now_ms, self._reports, outcomes, tuple(self._probes), operators))
        self._probes.clear()

    def _second_ended(self, at_s: float) -> None:
        self._at(at_s + 1.0, self._second_ended)
        second, record = round(at_s) - 1, self.record
        self.steering.flush(EPOCH_MS + int(at_s * 1000.0))
        for region, site in self.sites.items():
            for scaler in site.scalers.values():
                scaler.run(at_s)
            site.advance(at_s)
            self._harvest(region, site, second)
            mine = record.regions[region]
            for engine in site.engines.values():
                # The worst model of the region stands for it.
                mine.utilisation[second] = max(mine.utilisation[second], engine.utilisation)
                mine.waiting[second] += engine.waiting
                mine.replicas[second] += engine.replicas
                mine.kv[second] = max(mine.kv[second], engine.kv_used / engine.kv_total if engine.replicas else 0.0)
        record.plans[second] = self.steering.plans
        for name, value in self.steering.marks().items():
            record.mark(name, second, value)

    def _harvest(self, region: str, site: Site, second: int) -> None:
        mine = self.record.regions[region]
        for model, engine in site.engines.items():
            agent = site.agents[model]
            for work in engine.first_tokens:
                agent.saw_first_token(work)
                self.clients[work.stream].first_token(work)
            for work in engine.finished:
                self.clients[work.stream].settle(work, region, second)
                mine.tokens[second] += work.prompt + work.generated
            engine.first_tokens.clear()
            engine.finished.clear()

    def _conclude(self) -> None:
        record = self.record
        record.events = self.steering.events
        record.requests = sum(sum(stream.asked) for stream in record.streams.values())
        for site in self.sites.values():
            for engine in site.engines.values():
                record.prompt_tokens += engine.counters.prompt_tokens
                record.cached_tokens += engine.counters.cached_tokens
                record.preempted += engine.counters.preempted


def streams_of(scenario: Scenario, seed: str) -> list[Stream]:
    streams = []
    for index, (name, demand) in enumerate(scenario.demand.items()):
        unit = 1.0
        if demand.of_capacity is not None:
            unit = nominal_capacity(scenario, demand.of_capacity, name, seed)
        streams.append(Stream(name, index, demand, unit, seed))
    return streams


def _by_time(arrival: tuple[float, int, Clients]) -> tuple[float, int]:
    return arrival[0], arrival[1]
