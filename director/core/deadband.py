"""Published values: the gap in which nothing is republished.

Problem: a plan that follows every sample moves traffic for noise; one that averages long enough to be calm is late
when something happens. So a tracker averages twice. The fast average catches steps, the slow one catches drifts, and
the published value moves only when one of them leaves a band of `sigmas` of its own standard error around it.

The noise of one sample is measured from successive differences, (x - previous)² / 2 (von Neumann, 1941), which a trend
or a step hardly touches; one difference counts at most nine times the noise known so far. An exponential average of
independent samples has the variance noise · a / (2 - a).
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, sqrt

from msgspec import Struct

NOISE_S = 300.0
"""How long the noise estimate remembers. An estimate from few samples errs by itself: with 120 s and reports each 5 s,
6 σ of it were crossed by noise once in six hours, with 300 s once in ten."""
GROWN_MAX = 10.0
_WINSOR = 9.0
_WARM_SAMPLES = 8


class Band(Struct, frozen=True):
    """How a value is followed. `floor_ratio`: changes smaller than this part of the published value are never news."""

    fast_s: float
    slow_s: float
    sigmas: float
    floor_ratio: float
    floor: float = 0.0
    """The same in the value's own unit."""
    counted: bool = False
    """A count, whose variance grows with it (Poisson): after a step up, noise remembered from below would be crossed by
    chance."""
    learning_s: float = 6.0
    """After a step, the mean of what was seen since is published: the new level is learnt, not approached."""


class Tracker(Struct, frozen=True, array_like=True, gc=False):
    """One followed value. `published` is what the plan says."""

    published: float = 0.0
    fast: float = 0.0
    slow: float = 0.0
    noise: float = 0.0
    last: float = 0.0
    seen_s: float = 0.0
    samples: int = 0

    @property
    def known(self) -> bool:
        return self.samples > 0


def observe(tracker: Tracker, sample: float, dt_s: float, band: Band) -> Tracker:
    """Take one sample that stands for the last `dt_s` seconds; the first is published at once."""
    dt_s = dt_s if dt_s > 1e-3 else 1e-3
    if tracker.samples == 0:
        return Tracker(sample, sample, sample, 0.0, sample, dt_s, 1)
    seen_s = tracker.seen_s + dt_s
    # Early on, and after a step, the plain mean of what was seen is better than an average that starts from one sample.
    early = dt_s / seen_s
    a_fast = a if (a := weight(dt_s, band.fast_s)) > early else early
    a_slow = a if (a := weight(dt_s, band.slow_s)) > early else early
    published, samples = tracker.published, tracker.samples
    a_noise = a if (a := weight(dt_s, NOISE_S)) * (samples + 1) > 1.0 else 1.0 / (samples + 1)
    fast = tracker.fast + a_fast * (sample - tracker.fast)
    slow = tracker.slow + a_slow * (sample - tracker.slow)
    least = band.floor_ratio * published if samples >= _WARM_SAMPLES else None
    noise = noise_after(tracker.noise, sample, tracker.last, a_noise, least)
    floor = max(band.floor_ratio * abs(published), band.floor)
    if abs(fast - published) > floor and abs(fast - published) > band.sigmas * sqrt(noise * a_fast / (2 - a_fast)):
        # A step: the averages would drag the old level along, so they start again with this sample.
        if band.counted and 0.0 < published < fast:
            noise *= min(GROWN_MAX, fast / published)
        published, fast, slow, seen_s = fast, sample, sample, dt_s
    elif tracker.seen_s < band.learning_s <= seen_s:
        # Learnt: what stands for the hours to come is the best figure there is, not the last that left the floor.
        published = slow
    elif abs(slow - published) > floor and (
        seen_s < band.learning_s or abs(slow - published) > band.sigmas * sqrt(noise * a_slow / (2 - a_slow))
    ):
        published = slow
    return Tracker(published, fast, slow, noise, sample, seen_s, samples + 1)


@lru_cache(maxsize=4096)
def weight(dt_s: float, over_s: float) -> float:
    """What a sample that stands for `dt_s` counts in an exponential average over `over_s`."""
    return 1.0 - exp(-dt_s / over_s)


def noise_after(noise: float, sample: float, last: float, counts: float, least: float | None) -> float:
    """The variance of one sample, after one more. A difference counts at most nine times what is known, or than the
    square of `least`; None: nothing is known yet, and every difference counts.
    """
    jump = (sample - last) ** 2 / 2
    if least is not None:
        most = _WINSOR * (noise if noise > least**2 else least**2)
        jump = jump if jump < most else most
    return noise + counts * (jump - noise)


def restart(tracker: Tracker, sample: float, dt_s: float) -> Tracker:
    """Begin again at a level that is known to be another one; only what is known of the noise stays."""
    return Tracker(sample, sample, sample, tracker.noise, sample, max(dt_s, 1e-3), tracker.samples + 1)


def held_back(tracker: Tracker) -> float:
    """What the deadband holds back: the fast average less what is published."""
    return tracker.fast - tracker.published
