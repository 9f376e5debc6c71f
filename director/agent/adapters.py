"""Which LoRA adapters a deployment holds, from what its engines say and what its configuration promises.

An engine names the adapters of requests that run this moment; one without a request stays loaded until others push it
out. So what was seen running counts as loaded for a while: else an adapter of a quiet tenant would come and go with
every request, and its nearness with it. What is only registered, or waited for, is loadable.

A server's own list names what it has registered. Where its metrics say which adapters run, those that never did are
loadable; where they say nothing about adapters, the list is all there is, and what stands in it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from director.agent.reading import Reading
from director.core.report import Adapters

LOADED_FOR_S = 600.0


class AdapterMemory:
    """When each adapter of a deployment was last seen running, newest last."""

    def __init__(self) -> None:
        self._seen_at_s: dict[str, float] = {}

    def see(self, readings: Iterable[Reading], at_s: float) -> None:
        readings = list(readings)
        for reading in readings:
            for adapter in reading.adapters_running or ():
                self._seen_at_s.pop(adapter, None)
                self._seen_at_s[adapter] = at_s
        held = [name for name, seen_s in self._seen_at_s.items() if at_s - seen_s <= LOADED_FOR_S]
        slots = sum(reading.adapters_max or 0 for reading in readings)
        if slots:
            held = held[-slots:]
        self._seen_at_s = {name: self._seen_at_s[name] for name in held}

    def report(self, readings: Iterable[Reading], configured: Adapters) -> Adapters:
        """Nothing is loaded or loadable where no replica is ready to hold it."""
        readings = list(readings)
        if not readings:
            return Adapters()
        held = {name for reading in readings if reading.adapters_running is None for name in reading.adapters_listed}
        loaded = set(configured.loaded) | set(self._seen_at_s) | held
        asked = {name for reading in readings for name in (*reading.adapters_waiting, *reading.adapters_listed)}
        loadable = (set(configured.loadable) | asked) - loaded
        return Adapters(loaded=tuple(sorted(loaded)), loadable=tuple(sorted(loadable)))

    @staticmethod
    def origin(readings: Iterable[Reading], configured: Adapters) -> str:
        """Which of the three places had something to say."""
        readings = list(readings)
        places = sorted({reading.origins["adapters"] for reading in readings if "adapters" in reading.origins})
        places += ["/v1/models"] if any(reading.adapters_listed for reading in readings) else []
        places += ["configured"] if configured.loaded or configured.loadable else []
        return ", ".join(places) or "nobody names any"
