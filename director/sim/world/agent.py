"""What a region's agent says: the real `Report`, made from engine counters as a scraper sees them.

Rates are differences of counters over the interval; load is read at the moment of the report. An agent cannot know what
a request will generate when it arrives, so arrived tokens are arrivals × the mean size of what completed.
"""

from __future__ import annotations

from random import Random

from director.core.report import (
    SCHEMA,
    Adapters,
    Arrived,
    Completed,
    DeploymentReport,
    Errors,
    Health,
    Replicas,
    Report,
    Stage,
    Stages,
    Ttft,
)
from director.sim.scenario import Deployment
from director.sim.world.engine import Engine, Work
from director.sim.world.stages import Serving, StagedEngine

_MEAN_WEIGHT = 0.2
"""Of the newest interval, in the mean size of a completed request."""


class ErrorCounts:
    """What the region's gateway answered instead of serving, since it started."""

    __slots__ = ("client", "server", "throttled")

    def __init__(self) -> None:
        self.server = 0
        self.throttled = 0
        self.client = 0


class DeploymentAgent:
    """The part of an agent that watches one deployment."""

    def __init__(self, model: str, spec: Deployment, engine: Serving, tokens_mean: float) -> None:
        self._model = model
        self._spec = spec
        self._engine = engine
        self.errors = ErrorCounts()
        self.ttft_s: list[float] = []
        self._tokens_mean = tokens_mean
        self._last: tuple[float, ...] | None = None

    def describe(self, span_s: float, retry_after_s: float | None, noisy: Noise) -> DeploymentReport:
        engine, counters = self._engine, self._engine.counters
        read = (
            counters.arrived, counters.completed, counters.completed_tokens, counters.prompt_tokens,
            counters.generated_tokens, self.errors.server, self.errors.throttled, self.errors.client,
        )  # fmt: skip
        last, self._last = self._last or (0.0,) * len(read), read
        arrived, completed, tokens, prompt, generated, server, throttled, client = (
            (new - old) / span_s for new, old in zip(read, last, strict=True)
        )
        if completed > 0.0:
            self._tokens_mean += _MEAN_WEIGHT * (tokens / completed - self._tokens_mean)
        kv_usage = min(1.0, noisy.of(engine.kv_used / engine.kv_total)) if engine.replicas else None
        return DeploymentReport(
            model=self._model,
            version=self._spec.version,
            engine="vllm",
            adapters=Adapters(self._spec.adapters_loaded, self._spec.adapters_loadable),
            replicas=Replicas(engine.replicas, self._spec.replicas + self._spec.prefill_replicas),
            max_running=float(engine.slots),
            running=noisy.of(engine.running),
            waiting=noisy.of(engine.waiting),
            kv_usage=kv_usage,
            kv_usage_max=kv_usage,
            kv_tokens=engine.kv_total,
            stages=_stages(engine, noisy) if isinstance(engine, StagedEngine) else None,
            arrived=Arrived(noisy.of(arrived), noisy.of(arrived * self._tokens_mean)),
            completed=Completed(noisy.of(completed), noisy.of(prompt), noisy.of(generated)),
            errors_per_s=Errors(server=noisy.of(server), throttled=noisy.of(throttled), client=noisy.of(client)),
            retry_after_s=retry_after_s,
            ttft_ms=self._ttft(noisy),
        )

    def _ttft(self, noisy: Noise) -> Ttft | None:
        values, self.ttft_s = sorted(self.ttft_s), []
        if not values:
            return None
        median, high = values[len(values) // 2], values[int(len(values) * 0.95)]
        return Ttft(noisy.of(median * 1000.0), noisy.of(high * 1000.0))

    def saw_first_token(self, work: Work) -> None:
        self.ttft_s.append(work.first_token_s - work.arrived_s)


class Noise:
    """Every figure off by a factor of its own, uniform within 1 ± `ratio`."""

    def __init__(self, ratio: float, random: Random) -> None:
        self._ratio = ratio
        self._random = random

    def of(self, value: float) -> float:
        return float(value) * (1.0 + self._ratio * (2.0 * self._random.random() - 1.0)) if self._ratio else float(value)


def _stages(engine: StagedEngine, noisy: Noise) -> Stages:
    return Stages(_stage(engine.prefill, noisy), _stage(engine.decode, noisy))


def _stage(engine: Engine, noisy: Noise) -> Stage:
    return Stage(
        max_running=float(engine.slots),
        running=noisy.of(engine.running),
        waiting=noisy.of(engine.waiting),
        kv_usage=min(1.0, noisy.of(engine.kv_used / engine.kv_total)) if engine.replicas else None,
    )


class RegionAgent:
    """Reports of one region, numbered; a restart begins a new boot."""

    def __init__(self, region: str, deployments: tuple[DeploymentAgent, ...], noise: Noise) -> None:
        self._region = region
        self._deployments = deployments
        self._noise = noise
        self._sequence = 0
        self._last_s = 0.0

    def report(self, now_s: float, interval_s: float, health: Health, retry_after_s: float | None) -> Report:
        span_s = max(now_s - self._last_s, 1e-3)
        self._last_s = now_s
        self._sequence += 1
        return Report(
            schema=SCHEMA,
            boot_id=f"{self._region}-boot",
            sequence=self._sequence,
            observed_at=f"T+{now_s:.3f}",
            interval_s=interval_s,
            deployments=tuple(each.describe(span_s, retry_after_s, self._noise) for each in self._deployments),
            health=health,
        )
