"""One region of the model: its engines, its gateway, its agent, and what is wrong with it."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Literal

from director.core.report import Health, Report
from director.sim.scenario import Autoscale, Scenario
from director.sim.world.agent import DeploymentAgent, Noise, RegionAgent
from director.sim.world.demand import pool_of
from director.sim.world.engine import Work
from director.sim.world.stages import Serving, engine_of, sustained_requests_per_s

Answer = Literal["ok", "connect", "server", "throttled"]


class Site:
    def __init__(self, region: str, scenario: Scenario, seed: str) -> None:
        self.region = region
        self.engines: dict[str, Serving] = {}
        self.agents: dict[str, DeploymentAgent] = {}
        for model, spec in scenario.fleet[region].items():
            engine = self.engines[model] = engine_of(scenario.engines[spec.engine], spec)
            self.agents[model] = DeploymentAgent(model, spec, engine, _tokens_mean(scenario, model, seed))
        noise = Noise(scenario.reports.noise, Random(f"{seed}/{region}/noise"))
        self.agent = RegionAgent(region, tuple(self.agents.values()), noise)
        self.scalers = {
            model: Scaler(spec.autoscale, self.engines[model])
            for model, spec in scenario.fleet[region].items()
            if spec.autoscale is not None
        }
        self.replicas_nominal = {model: engine.replicas for model, engine in self.engines.items()}
        self._random = Random(f"{seed}/{region}/errors")
        self.dark = False
        self.silent = False
        self.health: Health = "ok"
        self.error_share = 0.0
        self.throttle_share = 0.0
        self.retry_after_s: float | None = None
        self.partitioned_share = 0.0

    def offer(self, work: Work, model: str, now_s: float, edge_position: float) -> Answer:
        """A request at the gateway. `edge_position` in [0, 1) places its L7 among all: low ones are cut off first."""
        if self.dark or edge_position < self.partitioned_share:
            return "connect"
        if self.throttle_share and self._random.random() < self.throttle_share:
            self.agents[model].errors.throttled += 1
            return "throttled"
        if self.error_share and self._random.random() < self.error_share:
            self.agents[model].errors.server += 1
            return "server"
        self.engines[model].submit(work, now_s)
        return "ok"

    @property
    def troubled(self) -> bool:
        """Whether anything is wrong with it that ought to move a session."""
        return self.dark or self.silent or self.error_share > 0.0 or self.throttle_share > 0.0

    def go_dark(self, now_s: float) -> list[Work]:
        self.dark = True
        return [work for engine in self.engines.values() for work in engine.fail_all(now_s)]

    def advance(self, now_s: float) -> None:
        for engine in self.engines.values():
            engine.advance(now_s)

    def report(self, now_s: float, interval_s: float) -> Report:
        self.advance(now_s)
        return self.agent.report(now_s, interval_s, self.health, self.retry_after_s)


class Scaler:
    """A horizontal autoscaler: follows load up after a start-up time, and down by one replica at a time."""

    def __init__(self, spec: Autoscale, engine: Serving) -> None:
        self.spec = spec
        self._engine = engine
        self._starting: deque[float] = deque()
        self._next_s = spec.every_s

    def run(self, now_s: float) -> None:
        engine, spec = self._engine, self.spec
        while self._starting and self._starting[0] <= now_s:
            self._starting.popleft()
            engine.set_replicas(engine.replicas + 1, now_s)
        if now_s < self._next_s:
            return
        self._next_s = now_s + spec.every_s
        inside = engine.running + engine.waiting
        wanted = -(-inside // max(1, int(spec.target * engine.spec.max_running)))
        wanted = min(max(wanted, spec.replicas_min), spec.replicas_max)
        coming = engine.replicas + len(self._starting)
        for _ in range(wanted - coming):
            self._starting.append(now_s + spec.startup_s)
        if wanted < coming and not self._starting:
            engine.set_replicas(engine.replicas - 1, now_s)


def nominal_capacity(scenario: Scenario, region: str, demand_name: str, seed: str) -> float:
    """Requests/s of this demand's kind that the region sustains as the scenario begins."""
    demand = scenario.demand[demand_name]
    spec = scenario.fleet[region][demand.model]
    pool = pool_of(demand, seed, demand_name)
    return sustained_requests_per_s(scenario.engines[spec.engine], spec, pool.prompt_mean, pool.generated_mean)


def _tokens_mean(scenario: Scenario, model: str, seed: str) -> float:
    sizes = [pool_of(each, seed, name).tokens_mean for name, each in scenario.demand.items() if each.model == model]
    return sum(sizes) / len(sizes) if sizes else 1366.0
