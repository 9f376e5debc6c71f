"""Published values: noise publishes nothing, a step is published within seconds, a drift is followed."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from director.core.capacity import RATE_BAND
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


def test_a_step_is_published_within_seconds_and_settles() -> None:
    """The published value is at the new level within three samples, and stays there."""
    published = [t.published for t in follow([100.0] * 60 + [200.0] * 60)][60:]
    assert published[0] > 120
    assert set(published[3:]) == {200.0}


def test_a_noisy_step_is_learnt_not_approached() -> None:
    """With ±20 % of noise the new level is known to a tenth within ten samples."""
    draw = Random(1)
    levels = [100.0] * 100 + [50.0] * 30
    published = [t.published for t in follow([level * draw.uniform(0.8, 1.2) for level in levels])]
    assert all(abs(value - 50) < 5 for value in published[110:])


def test_noise_alone_publishes_nothing_for_an_hour() -> None:
    """±20 % on every report, each five seconds: over ten hours, at most two false alarms."""
    alarms = 0
    for seed in range(10):
        draw, tracker, published = Random(seed), Tracker(), set()
        for number in range(780):
            tracker = observe(tracker, 100 * draw.uniform(0.8, 1.2), 5.0, RATE_BAND)
            if number >= 60:
                published.add(tracker.published)
        alarms += len(published) - 1
        assert abs(held_back(tracker)) < 20
    assert alarms <= 2


def test_a_count_that_stepped_up_is_not_moved_by_its_own_dice() -> None:
    """Poisson noise at nine times the level is three times as wide: what was measured below would be crossed by it."""
    band = Band(fast_s=3.0, slow_s=15.0, sigmas=6.0, floor_ratio=0.02, counted=True)
    changes = 0
    for seed in range(10):
        draw, tracker, published = Random(seed), Tracker(), set()
        for number in range(420):
            level = 100.0 if number < 300 else 900.0
            tracker = observe(tracker, draw.gauss(level, 3.0 * level**0.5), 1.0, band)
            if number >= 320:
                published.add(tracker.published)
        changes += len(published) - 1
    assert changes <= 2


@given(samples=st.lists(st.floats(0, 1e9), min_size=1, max_size=50))
def test_published_stays_within_what_was_seen(samples: list[float]) -> None:
    """No overshoot: a published value lies between the least and the greatest sample."""
    for tracker in follow(samples):
        assert min(samples) * (1 - 1e-9) <= tracker.published <= max(samples) * (1 + 1e-9)
