"""Rates from counters that reset. One history for each reading of each target.

A restarted engine counts from 0 again. Whichever of its counters fell gives it away, and then all of them are taken to
have begun at 0 within the interval: a rate is never negative, and errors never outnumber the requests of another life.
An engine first seen, or seen again after a long silence, has no rate until its second scrape. A counter that is
missing or not a number in one scrape goes on, in the next, from where it was.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean

from msgspec import Struct, field

from director.agent.histogram import grown, summed
from director.agent.reading import Counted, CumulativeBuckets, Reading

RATE_WINDOW_S = 10.0
"""Rates are means over this long: two reports' worth, so that a scrape's place within the interval does not show."""

LATENCY_WINDOW_S = 60.0
"""Quantiles need a few dozen requests; a region of two requests a second has them after this long."""

SILENCE_S_MAX = 60.0
"""After a longer silence nobody knows when what was counted happened."""


class _Point(Struct, frozen=True):
    at_s: float
    totals: dict[str, float]
    """Counters since the history began, resets taken out."""
    in_flight: float | None
    running: float | None
    generating_tokens_per_s: float | None
    ttft_grown: CumulativeBuckets | None


class Rates(Struct, frozen=True):
    """Per second over the window. A counter that the reading never had is absent, not 0."""

    per_s: dict[str, float] = field(default_factory=dict)
    in_flight_growth_per_s: float | None = None
    running_growth_per_s: float | None = None
    generating_tokens_per_s: float | None = None
    """Mean of what the engine said of itself."""


class _Life(Struct, frozen=True):
    """A process at one scrape."""

    counted: Counted
    started_at_s: float | None = None

    def with_what_is_missing_of(self, last: _Life) -> _Life:
        counters = last.counted.counters | self.counted.counters
        return _Life(Counted(counters, self.counted.ttft_buckets or last.counted.ttft_buckets), self.started_at_s)


class History:
    """Feed it a target's readings of one served model, in order, with a monotonic clock's seconds."""

    def __init__(self, rate_window_s: float = RATE_WINDOW_S, latency_window_s: float = LATENCY_WINDOW_S) -> None:
        self._rate_window_s = rate_window_s
        self._latency_window_s = latency_window_s
        self._points: deque[_Point] = deque()
        self._last: dict[str, _Life] = {}
        """What each process last said: one, by no name, unless a reading tells several apart."""
        self.resets = 0

    def add(self, reading: Reading, at_s: float) -> None:
        if self._points and at_s - self._points[-1].at_s > SILENCE_S_MAX:
            self._points.clear()
            self._last.clear()
        totals = dict(self._points[-1].totals) if self._points else {}
        totals |= {name: 0.0 for name in reading.counters if name not in totals}
        lives = _lives(reading)
        self._last = {process: last for process, last in self._last.items() if process in lives}
        ttft = [self._advance(process, life, totals) for process, life in lives.items()]
        known = [part for part in ttft if part is not None]
        self._points.append(_point(reading, at_s, totals, summed(known) if known else None))
        while len(self._points) > 2 and self._points[1].at_s < at_s - max(self._rate_window_s, self._latency_window_s):
            self._points.popleft()

    def _advance(self, process: str, life: _Life, totals: dict[str, float]) -> CumulativeBuckets | None:
        """Adds to `totals` what a process counted since it was last heard; the first-token times it observed."""
        last = self._last.get(process)
        if last is None:
            self._last[process] = life
            return None
        reset = has_reset(last, life)
        self.resets += reset
        for name, value in life.counted.counters.items():
            before = 0.0 if reset else last.counted.counters.get(name, 0.0)
            totals[name] += max(0.0, value - before)
        self._last[process] = life if reset else life.with_what_is_missing_of(last)
        if life.counted.ttft_buckets is None:
            return None
        return grown(life.counted.ttft_buckets, None if reset else last.counted.ttft_buckets or ())

    def rates(self) -> Rates | None:
        """None until the second scrape."""
        if len(self._points) < 2:
            return None
        newest = self._points[-1]
        oldest = self._oldest_within(self._rate_window_s)
        span_s = newest.at_s - oldest.at_s
        if span_s <= 0:
            return None
        said = [
            point.generating_tokens_per_s
            for point in self._points
            if point.at_s >= oldest.at_s and point.generating_tokens_per_s is not None
        ]
        return Rates(
            {name: (total - oldest.totals.get(name, 0.0)) / span_s for name, total in newest.totals.items()},
            _growth(oldest.in_flight, newest.in_flight, span_s),
            _growth(oldest.running, newest.running, span_s),
            fmean(said) if said else None,
        )

    def moved(self, name: str) -> float:
        """How far a counter went over the latency window."""
        if len(self._points) < 2:
            return 0.0
        return self._points[-1].totals.get(name, 0.0) - self._points[0].totals.get(name, 0.0)

    def ttft(self) -> CumulativeBuckets:
        """First-token times observed over the latency window."""
        return summed(p.ttft_grown for p in self._points if p.ttft_grown is not None)

    def _oldest_within(self, window_s: float) -> _Point:
        """The oldest point inside the window, but never the newest itself."""
        newest_s = self._points[-1].at_s
        for point in self._points:
            if point.at_s >= newest_s - window_s:
                return point if point is not self._points[-1] else self._points[-2]
        return self._points[-2]


def _point(reading: Reading, at_s: float, totals: dict[str, float], ttft: CumulativeBuckets | None) -> _Point:
    in_flight = None if reading.running is None else reading.running + (reading.waiting or 0.0)
    return _Point(at_s, totals, in_flight, reading.running, reading.generating_tokens_per_s, ttft)


def _growth(before: float | None, after: float | None, span_s: float) -> float | None:
    return None if before is None or after is None else (after - before) / span_s


def _lives(reading: Reading) -> dict[str, _Life]:
    """The start time of a dump that gathers several processes is that of whoever gathers them."""
    if reading.processes:
        return {process: _Life(counted) for process, counted in reading.processes.items()}
    return {"": _Life(Counted(reading.counters, reading.ttft_buckets), reading.started_at_s)}


def has_reset(before: _Life, after: _Life) -> bool:
    """Another process answered: it says so by its start time, or a counter or a bucket fell."""
    if before.started_at_s is not None and after.started_at_s is not None:
        return abs(before.started_at_s - after.started_at_s) > 1.0
    counters = after.counted.counters
    if any(counters.get(name, value) < value for name, value in before.counted.counters.items()):
        return True
    buckets_before, buckets_after = before.counted.ttft_buckets, after.counted.ttft_buckets
    total_before = buckets_before[-1][1] if buckets_before else 0.0
    total_after = buckets_after[-1][1] if buckets_after else total_before
    return total_after < total_before
