"""What one scrape says about one served model: the form every engine's reader turns its dump into.

None is unknown, never 0. `origins` names the series behind each figure, for `--print`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from director.agent.exposition import Dump, Labels, Sample

Scope = Literal["replica", "pool", "kv"]
"""A reading speaks for engine replicas, for a whole pool behind a gateway, or only for the KV caches of a pool."""

StageName = Literal["prefill", "decode"]

CumulativeBuckets = tuple[tuple[float, float], ...]
"""(upper bound, count at or below it), ascending, +Inf last."""

COUNTERS = (
    "requests_arrived",
    "requests_completed",
    "prompt_tokens",
    "generation_tokens",
    "finished_prompt_tokens",
    "finished_generation_tokens",
    "errors_server",
    "errors_timeout",
    "errors_throttled",
    "errors_client",
    "http_errors_server",
    "http_errors_timeout",
    "http_errors_throttled",
    "http_errors_client",
)
"""Counters a reading may carry. Prompt tokens are counted when prefilled and generated ones as they come; finished
ones all at once when their request is done, a request's time later. What ended in an HTTP error is counted apart from
what the engine says it ended: the two overlap, and most of what is refused over HTTP never reached the engine."""


class Counted(Struct, frozen=True):
    """What one process has counted since it began."""

    counters: dict[str, float] = field(default_factory=dict)
    ttft_buckets: CumulativeBuckets | None = None


class Reading(Struct, frozen=True, kw_only=True):
    served_name: str | None = None
    scope: Scope = "replica"
    ready: int = 1
    """Replicas this reading speaks for."""
    asleep: bool = False
    stage: StageName | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    kv_tokens: float | None = None
    generating_tokens_per_s: float | None = None
    """What the engine itself says it generates, where its counter counts finished requests only."""
    max_running: float | None = None
    """Of all `ready` replicas together."""
    counters: dict[str, float] = field(default_factory=dict)
    processes: dict[str, Counted] = field(default_factory=dict)
    """Where one dump gathers several processes that come and go: the parts of `counters` and `ttft_buckets`."""
    started_at_s: float | None = None
    """When the process started, by its own clock: another value is another process, whose counters began at 0."""
    ttft_buckets: CumulativeBuckets | None = None
    adapters_running: tuple[str, ...] | None = None
    adapters_waiting: tuple[str, ...] = ()
    adapters_max: int | None = None
    adapters_listed: tuple[str, ...] = ()
    """Those the server lists as its own, whether or not a request asks for them."""
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """Which of the three signals of the Model Server Protocol the dump did not give."""
        return tuple(name for name in ("running", "waiting", "kv_usage") if getattr(self, name) is None)


Keep = Callable[[Labels], bool]


class Picker:
    """Takes figures out of a dump and notes where each came from.

    Every lookup is given the names of one signal, newest first, and takes the first that holds a real number: old and
    new names are twins, so they are never added up.
    """

    def __init__(self, dump: Dump, keep: Keep = lambda _labels: True) -> None:
        self.dump = dump
        self.keep = keep
        self.origins: dict[str, str] = {}

    def series(self, names: Iterable[str]) -> tuple[str, list[Sample]]:
        """The first name whose series are all measured, and its series. A negative or a NaN is not measured yet.

        Where only some are, the figure is unknown: a sum over those would read the others as 0.
        """
        for name in names:
            found = [s for s in self.dump.get(name) if self.keep(s.labels)]
            if found and all(s.value >= 0 and math.isfinite(s.value) for s in found):
                return name, found
        return "", []

    def total(self, figure: str, names: Iterable[str], where: Keep | None = None) -> float | None:
        name, found = self.series(names)
        if where is not None:
            found = [s for s in found if where(s.labels)]
        if not found:
            return None
        self.origins[figure] = name if len(found) == 1 else f"sum of {len(found)} × {name}"
        return math.fsum(s.value for s in found)

    def greatest(self, figure: str, names: Iterable[str]) -> float | None:
        name, found = self.series(names)
        if not found:
            return None
        self.origins[figure] = name if len(found) == 1 else f"greatest of {len(found)} × {name}"
        return max(s.value for s in found)

    def ratio(self, figure: str, names: Iterable[str]) -> float | None:
        """A use from 0 to 1; what overshoots by rounding is 1."""
        value = self.greatest(figure, names)
        return None if value is None else min(value, 1.0)

    def buckets(self, figure: str, names: Iterable[str]) -> CumulativeBuckets | None:
        """A histogram's cumulative counts, added over all kept series of one name."""
        name, found = self.series(f"{n}_bucket" for n in names)
        sums: dict[float, float] = {}
        for sample in found:
            bound = _bound(sample.labels.get("le", ""))
            if bound is not None:
                sums[bound] = sums.get(bound, 0.0) + sample.value
        if not sums:
            return None
        self.origins[figure] = name
        return tuple(sorted(sums.items()))

    def counters(self, table: Mapping[str, Sequence[str]]) -> dict[str, float]:
        found = {figure: self.total(figure, names) for figure, names in table.items()}
        return {figure: value for figure, value in found.items() if value is not None}

    def started_at_s(self) -> float | None:
        found = self.dump.get("process_start_time_seconds")
        return found[0].value if len(found) == 1 else None


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def split_list(text: str) -> tuple[str, ...]:
    """A comma-separated label; an empty one is no entries."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def label_values(dump: Dump, names: Iterable[str], label: str) -> tuple[str | None, ...]:
    """The distinct values of a label over series of these names; (None,) where the label does not appear."""
    seen = {sample.labels.get(label) for name in names for sample in dump.get(name)}
    if not seen:
        return ()
    named = sorted(value for value in seen if value)
    return tuple(named) if named else (None,)


def having(label: str, value: str | None) -> Keep:
    """Keeps series whose label is `value` or that carry no such label: info series often leave the model out."""
    return lambda labels: value is None or labels.get(label, value) == value
