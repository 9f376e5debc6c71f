"""One target's part in one deployment: its latest reading, its history, and what is wrong with it."""

from __future__ import annotations

import structlog
from msgspec import structs

from director.agent.config import DeploymentConfig, Source
from director.agent.engines import epp, read_engine
from director.agent.exposition import Dump, NotUnderstood
from director.agent.history import History
from director.agent.reading import Reading, StageName

log = structlog.get_logger(__name__)

PROBLEM_CHARACTERS_MAX = 400
"""A problem quotes what a target said, and a target may say anything at any length."""

FAILURES_TOLERATED = 1
"""One scrape that times out on a busy engine is noise; two in a row are a replica that does not answer."""


class Voice:
    def __init__(self, target: str, deployment: DeploymentConfig, source: Source) -> None:
        self.target = target
        self.deployment = deployment
        self.source = source
        self.engine: str = "epp" if source.epp is not None else (deployment.engine or "")
        self.history = History()
        self.problem: str | None = None
        """Why it has no reading, or what its reading lacks."""
        self.heard = False
        """Whether it was ever scraped, well or not."""
        self._adapters_listed: tuple[str, ...] = ()
        self._reading: Reading | None = None
        self._failures = 0

    @property
    def is_picker(self) -> bool:
        return self.source.epp is not None

    @property
    def reading(self) -> Reading | None:
        return self._reading if self._failures <= FAILURES_TOLERATED else None

    @property
    def lists_adapters(self) -> bool:
        """Whether the target has a list of its adapters beside its metrics."""
        return self.engine == "vllm" and self.reading is not None and not self.is_picker

    @property
    def stage(self) -> StageName | None:
        if self.source.stage is not None:
            return self.source.stage
        return self._reading.stage if self._reading is not None else None

    @property
    def speaks_for(self) -> int:
        """Replicas behind the target, as it last said; one for a replica that never said anything."""
        if self._reading is None:
            return 0 if self.is_picker else 1
        return 0 if self._reading.scope == "kv" else self._reading.ready

    def observe(self, dump: Dump, at_s: float) -> None:
        """A dump came. One that is not understood takes the reading away: it must never count as idle."""
        self.heard = True
        try:
            reading = self._choose(dump)
        except NotUnderstood as error:
            self._reading, self.problem = None, _shortened(str(error))
            return
        except Exception as error:  # a dump that breaks a reader must cost its own replica only
            log.exception("reader_crashed", target=self.target)
            self._reading, self.problem = None, _shortened(f"broke the agent's reader: {error!r}")
            return
        self._reading, self._failures = self._with_adapters(reading), 0
        missing = self._missing(reading)
        self.problem = f"does not say {', '.join(missing)}" if missing else None
        self.history.add(reading, at_s)

    def list_adapters(self, names: tuple[str, ...]) -> None:
        """What the target's own list says, until it says something else."""
        self._adapters_listed = names
        if self._reading is not None:
            self._reading = self._with_adapters(self._reading)

    def _with_adapters(self, reading: Reading) -> Reading:
        if reading.adapters_listed == self._adapters_listed:
            return reading
        return structs.replace(reading, adapters_listed=self._adapters_listed)

    def fail(self, problem: str, *, certain: bool) -> None:
        """No dump came. `certain`: nobody is there at all, so that a second try would tell nothing new."""
        self.heard = True
        self.problem = _shortened(problem)
        self._failures = FAILURES_TOLERATED + 1 if certain else self._failures + 1

    def _choose(self, dump: Dump) -> Reading:
        served_as = self.deployment.served_as
        if self.is_picker:
            readings = epp.read(dump, self.source.pool, served_as)
            if not any(name in dump for name in epp.WANTED):
                raise NotUnderstood(f"answered {dump.lines} samples, none of them an Endpoint Picker's")
            return readings[0]
        self.engine, readings = read_engine(dump, self.deployment.engine)
        if not served_as:
            if len(readings) > 1:
                names = ", ".join(r.served_name or "?" for r in readings)
                raise NotUnderstood(f"serves several models ({names}): say which with served_as")
            return readings[0]
        for name in served_as:
            for reading in readings:
                if reading.served_name == name or reading.served_name is None:
                    return reading
        names = ", ".join(r.served_name or "?" for r in readings)
        raise NotUnderstood(f"serves {names}, not {' or '.join(served_as)}")

    def _missing(self, reading: Reading) -> tuple[str, ...]:
        """What the target ought to have said, in words. A pool without a ready endpoint has no load to tell."""
        if self.is_picker and "ready" not in reading.origins:
            return ("how many endpoints are ready: its pool counts as none",)
        expected = reading.ready > 0 if self.is_picker else reading.scope == "replica" and not reading.asleep
        return reading.missing if expected else ()


def _shortened(problem: str) -> str:
    return problem if len(problem) <= PROBLEM_CHARACTERS_MAX else f"{problem[:PROBLEM_CHARACTERS_MAX]}…"
