"""Voices → one deployment's report: what its replicas and its picker say, added up without inventing anything.

Replicas that are scraped directly speak for load, KV use and throughput; a picker fills in what they cannot know,
arrivals and errors by class, and speaks for everything where it is all there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field, structs

from director.agent.adapters import AdapterMemory
from director.agent.capacity import CapacityEstimate
from director.agent.config import DeploymentConfig
from director.agent.flows import flows_of
from director.agent.histogram import quantile_s, summed
from director.agent.reading import Reading, StageName
from director.agent.voice import Voice
from director.core.report import DeploymentReport, EngineState, Replicas, Scraped, Stage, Stages, Ttft


class Summary(Struct, frozen=True):
    report: DeploymentReport
    origins: dict[str, str]
    """Field of the report → where it came from."""
    problems: tuple[str, ...]


class DeploymentMemory:
    """What a deployment's summary carries from one report to the next."""

    def __init__(self) -> None:
        self.adapters = AdapterMemory()
        self.capacity = CapacityEstimate()


class Load(Struct, frozen=True):
    """Summed load of some readings, with origins."""

    ready: int = 0
    max_running: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    kv_usage_max: float | None = None
    kv_tokens: float | None = None
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def occupancy(self) -> float | None:
        """The worse of running ÷ max_running and KV use."""
        slots = self.running / self.max_running if self.running is not None and self.max_running else None
        return max((x for x in (slots, self.kv_usage) if x is not None), default=None)

    def stage(self) -> Stage:
        return Stage(self.max_running, self.running, self.waiting, self.kv_usage)


def summarise(config: DeploymentConfig, voices: Sequence[Voice], memory: DeploymentMemory, at_s: float) -> Summary:
    """The deployment's report at `at_s` of the monotonic clock that the voices' scrapes were stamped with."""
    speaking = _who_speaks(voices)
    awake = [v for v in speaking if v.reading is not None and not v.reading.asleep]
    stages = _stages(config, awake) if any(v.stage for v in speaking) else None
    load = _load(config, awake) if stages is None else _staged_load(stages)
    flows = flows_of(awake, voices, staged=stages is not None)
    memory.adapters.see(_readings(awake), at_s)
    if flows.completed_tokens_per_s is not None and load.occupancy is not None:
        memory.capacity.see(flows.completed_tokens_per_s, load.occupancy, load.ready, at_s)
    capacity = memory.capacity.capacity(load.ready, config.replica_capacity_tokens_per_s)
    scraped = [v for v in voices if not v.is_picker] or list(voices)
    answered = sum(v.reading is not None for v in scraped)
    ttft, ttft_origin = _ttft(awake, voices)
    report = DeploymentReport(
        model=config.model,
        version=config.version,
        engine=next((v.engine for v in speaking if v.engine and not v.is_picker), None),
        state=_state(config, speaking, load.ready),
        replicas=Replicas(load.ready, max(load.ready, config.replicas_total or sum(v.speaks_for for v in speaking))),
        adapters=memory.adapters.report(_readings(awake) if load.ready else (), config.adapters),
        max_running=load.max_running,
        running=load.running,
        waiting=load.waiting,
        kv_usage=load.kv_usage,
        kv_usage_max=load.kv_usage_max,
        kv_tokens=load.kv_tokens,
        stages=None if stages is None else Stages(stages["prefill"].stage(), stages["decode"].stage()),
        arrived=flows.arrived,
        completed=flows.completed,
        errors_per_s=flows.errors,
        ttft_ms=ttft,
        capacity_tokens_per_s=capacity.tokens_per_s,
        capacity_source=capacity.source,
        scraped=Scraped(answered, len(scraped)),
    )
    origins = load.origins | flows.origins
    origins |= {"capacity_tokens_per_s": capacity.why, "ttft_ms": ttft_origin}
    origins |= {
        "replicas": _replicas_origin(speaking),
        "adapters": memory.adapters.origin(_readings(awake), config.adapters),
    }
    problems = tuple(f"{v.target}: {v.problem}" for v in voices if v.problem)
    return Summary(report, origins, problems)


def _who_speaks(voices: Sequence[Voice]) -> list[Voice]:
    """Replicas where any are configured; else the picker. A silent replica is not replaced by its picker's averages."""
    replicas = [v for v in voices if not v.is_picker]
    return replicas or list(voices)


def _readings(voices: Iterable[Voice]) -> list[Reading]:
    return [v.reading for v in voices if v.reading is not None]


def _load(config: DeploymentConfig, voices: Iterable[Voice]) -> Load:
    readings = [r for r in _readings(voices) if r.ready > 0]
    engines = [r for r in readings if r.scope != "kv"]
    if not engines:
        return Load()
    caches = [r for r in readings if r.kv_usage is not None]
    ready = sum(r.ready for r in engines)
    origins: dict[str, str] = {}

    def whole(figure: str, values: list[float | None]) -> float | None:
        """The sum, when everybody says: a sum over some would read the others as 0."""
        known = [value for value in values if value is not None]
        if len(known) != len(values):
            return None
        origins[figure] = _origin(figure, engines)
        return math.fsum(known)

    slots = [
        r.max_running
        if r.max_running is not None
        else (None if config.replica_max_running is None else config.replica_max_running * r.ready)
        for r in engines
    ]
    load = Load(
        ready=ready,
        max_running=whole("max_running", slots),
        running=whole("running", [r.running for r in engines]),
        waiting=whole("waiting", [r.waiting for r in engines]),
        kv_usage=_weighted_kv_usage(caches),
        kv_usage_max=max((r.kv_usage for r in caches if r.kv_usage is not None), default=None),
        kv_tokens=whole("kv_tokens", [r.kv_tokens for r in engines]),
    )
    if caches:
        origins["kv_usage"] = f"mean by KV size of {_origin('kv_usage', caches)}"
        origins["kv_usage_max"] = f"greatest of {_origin('kv_usage', caches)}"
    if load.max_running is not None and all(r.max_running is None for r in engines):
        origins["max_running"] = f"replica_max_running × {ready} ready"
    return structs.replace(load, origins=origins)


def _weighted_kv_usage(readings: Sequence[Reading]) -> float | None:
    """Weighted by KV size; by replicas where a size is not known."""
    if not readings:
        return None
    sized = all(r.kv_tokens for r in readings)
    weights = [(r.kv_tokens or 0.0) if sized else float(r.ready) for r in readings]
    return math.fsum((r.kv_usage or 0.0) * w for r, w in zip(readings, weights, strict=True)) / math.fsum(weights)


def _stages(config: DeploymentConfig, awake: Sequence[Voice]) -> dict[StageName, Load]:
    return {
        "prefill": _load(config, [v for v in awake if v.stage == "prefill"]),
        "decode": _load(config, [v for v in awake if v.stage == "decode"]),
    }


def _staged_load(stages: dict[StageName, Load]) -> Load:
    """A request waits before either stage and lives in decode. Without both stages nothing is served."""
    prefill, decode = stages["prefill"], stages["decode"]
    waiting = [w for w in (prefill.waiting, decode.waiting) if w is not None]
    return structs.replace(
        decode,
        ready=prefill.ready + decode.ready if prefill.ready and decode.ready else 0,
        waiting=math.fsum(waiting) if waiting else None,
        kv_usage_max=max((x for x in (prefill.kv_usage_max, decode.kv_usage_max) if x is not None), default=None),
        origins=decode.origins | {"waiting": "prefill + decode"},
    )


def _state(config: DeploymentConfig, speaking: Sequence[Voice], ready: int) -> EngineState:
    if config.draining:
        return "draining"
    asleep = any(reading.asleep for reading in _readings(speaking))
    return "asleep" if asleep and not ready else "serving"


def _replicas_origin(speaking: Sequence[Voice]) -> str:
    counted = [reading for reading in _readings(speaking) if "ready" in reading.origins]
    return _origin("ready", counted) if counted else "who answers with a load that is understood, and is awake"


def _ttft(awake: Sequence[Voice], voices: Sequence[Voice]) -> tuple[Ttft | None, str]:
    """Quantiles over a minute: the speakers', else the picker's."""
    for group in (awake, [v for v in voices if v.is_picker and v.reading is not None]):
        buckets = summed(v.history.ttft() for v in group)
        p50, p95 = quantile_s(buckets, 0.50), quantile_s(buckets, 0.95)
        if p50 is not None and p95 is not None:
            return Ttft(p50 * 1000.0, p95 * 1000.0), f"summed {_origin('ttft_ms', _readings(group))}"
    return None, "no first token in the last minute"


def _origin(figure: str, readings: Iterable[Reading]) -> str:
    names = sorted({r.origins[figure] for r in readings if figure in r.origins})
    count = sum(1 for r in readings if figure in r.origins)
    joined = " | ".join(names) or "unknown"
    return joined if count <= 1 else f"{count} × {joined}"


def describe(summary: Summary) -> list[tuple[str, Any, str]]:
    """(field, value, origin) rows for a person, in the report's order."""
    rows = []
    for name in DeploymentReport.__struct_fields__:
        value = getattr(summary.report, name)
        if name in summary.origins or name in ("state", "scraped"):
            rows.append((name, value, summary.origins.get(name, "")))
    return rows
