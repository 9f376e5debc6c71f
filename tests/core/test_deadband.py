"""Published values: noise publishes nothing, a step is published within seconds, a drift is followed."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from director.core.deadband import Band, Tracker, held_back, observe

BAND = Band(fast_s=3.0, slow_s=15.0, sigmas=5.0, floor_ratio=0.02)


def follow(samples: list[float]) -> list[Tracker]:
    tracker, out = Tracker(), []
    for sample in samples:
        tracker = observe(tracker, sample, 1.0, BAND)
        out.append(tracker)
    return out


def test_the_first_sample_is_published_and_a_constant_stays() -> None:
    """Nothing is known before; nothing changes after."""
    assert {t.published for t in follow([7.0] * 500)} == {7.0}


def test_a_step_is_published_within_seconds_and_settles_once() -> None:
    """The published value ends at the new level and does not fall back towards the old."""
    published = [t.published for t in follow([100.0] * 60 + [200.0] * 60)][60:]
    assert published[6] > 170
    assert abs(published[30] - 200) < 8
    assert published == sorted(published)


def test_noise_alone_publishes_nothing_for_an_hour() -> None:
    """±20 % on every sample, once the first minutes have said what is normal."""
    draw = Random(7)
    trackers = follow([100 * draw.uniform(0.8, 1.2) for _ in range(3600)])
    assert len({t.published for t in trackers[300:]}) <= 2
    assert abs(held_back(trackers[-1])) < 20


@given(samples=st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_published_stays_within_what_was_seen(samples: list[float]) -> None:
    """No overshoot: a published value lies between the least and the greatest sample."""
    for tracker in follow(samples):
        assert min(samples) * (1 - 1e-9) <= tracker.published <= max(samples) * (1 + 1e-9)
