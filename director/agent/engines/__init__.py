"""One reader per engine, in all its names old and new. A reader turns a dump into readings and knows nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from director.agent.engines import dynamo, epp, ray, sglang, triton, trtllm, vllm
from director.agent.exposition import Dump, NotUnderstood
from director.agent.reading import Reading

EngineName = Literal["vllm", "sglang", "trtllm", "triton", "dynamo", "ray"]


class Engine(NamedTuple):
    read: Callable[[Dump], list[Reading]]
    wanted: frozenset[str]
    metrics_path: str
    when_missing: str
    """What a 404 on the metrics path means for this engine."""


ENGINES: dict[str, Engine] = {
    "vllm": Engine(vllm.read, vllm.WANTED, "/metrics", "vLLM serves metrics unless started with --disable-log-stats"),
    "sglang": Engine(sglang.read, sglang.WANTED, "/metrics", "start SGLang with --enable-metrics"),
    "trtllm": Engine(
        trtllm.read, trtllm.WANTED, "/prometheus/metrics", "set return_perf_metrics: true for trtllm-serve"
    ),
    "triton": Engine(triton.read, triton.WANTED, "/metrics", "Triton serves metrics on port 8002"),
    "dynamo": Engine(dynamo.read, dynamo.WANTED, "/metrics", "set DYN_SYSTEM_ENABLED for a Dynamo worker's metrics"),
    "ray": Engine(ray.read, ray.WANTED, "/metrics", "Ray serves metrics on its metrics export port"),
}
if set(ENGINES) != set(get_args(EngineName)):
    raise AssertionError("EngineName and ENGINES name the same engines")

WANTED = frozenset({"process_start_time_seconds"}).union(epp.WANTED, *(engine.wanted for engine in ENGINES.values()))


def read_engine(dump: Dump, engine: str | None) -> tuple[str, list[Reading]]:
    """The engine's name and its readings; found out from the dump when `engine` is None.

    Raises `NotUnderstood` when the dump holds no load signal that the engine's reader knows.
    """
    candidates = [engine] if engine is not None else list(ENGINES)
    for name in candidates:
        readings = [r for r in ENGINES[name].read(dump) if r.scope == "kv" or r.running is not None]
        if readings:
            return name, readings
    if not dump.lines:
        raise NotUnderstood("answered no samples at all")
    known = f"{engine}'s" if engine is not None else "any known engine's"
    raise NotUnderstood(f"answered {dump.lines} samples, none of them {known} count of running requests")
