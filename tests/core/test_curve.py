"""An engine's curve: what a half-empty engine would do when full. Case D23."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.core.capacity import Learnt, Mix, learn
from director.core.curve import BEND_UNKNOWN, Curve, Reading, forget_last, read
from director.core.deadband import Tracker
from director.core.report import Arrived, Completed, DeploymentReport, Replicas

SLOTS, TARGET = 100.0, 0.9


def pace(occupancy: float, bend: float, full: float = 0.1) -> float:
    """Slot-seconds per token of an engine whose pace at the target is `full`."""
    return full * (1.0 - bend * (TARGET - occupancy))


def follow(occupancies: list[float], bend: float, noise: float = 0.0, seed: int = 1) -> list[Reading]:
    """Reports each 5 s of an engine that goes through these occupancies, linear between them."""
    draw, curve, out, before = Random(seed), Curve(), [], occupancies[0]
    for now in occupancies:
        mean = (before + now) / 2.0
        made = mean * SLOTS / pace(mean, bend) * draw.uniform(1 - noise, 1 + noise)
        reading = read(curve, now * draw.uniform(1 - noise, 1 + noise), SLOTS, made, TARGET, 5.0)
        curve, before = reading.curve, now
        out.append(reading)
    return out


def test_a_first_report_has_one_end_and_says_nothing() -> None:
    assert read(Curve(), 0.6, SLOTS, 600.0, TARGET, 5.0).rate is None


@pytest.mark.parametrize("bend", [0.0, 0.3, 0.7, 1.0])
def test_a_surge_shows_the_bend_in_its_first_report(bend: float) -> None:
    """Half empty for minutes, then filling: the rate at the target is known within 5 % before the engine is full."""
    readings = follow([0.4] * 30 + [0.55, 0.7], bend)
    assert readings[29].rate is not None
    assert readings[29].curve.bend == BEND_UNKNOWN
    first = readings[30]
    assert first.moved is False or first.rate == pytest.approx(10.0, rel=0.05)
    assert readings[31].moved
    assert readings[31].rate == pytest.approx(10.0, rel=0.05)


def test_what_was_learnt_holds_when_the_engine_empties() -> None:
    """The next day a half-empty engine is judged by what it showed when it was full."""
    readings = follow([0.4] * 30 + [0.6, 0.8, 0.9] + [0.9] * 20 + [0.6, 0.4] + [0.4] * 60, 0.7)
    assert readings[-1].rate == pytest.approx(10.0, rel=0.05)


def test_a_batch_that_always_swings_is_learnt_all_the_same() -> None:
    """Emptied and filled between any two reports, for ever: poor samples, but not none."""
    readings = follow([0.2, 0.9] * 20, 0.0)
    assert sum(reading.rate is not None for reading in readings) >= 8
    assert readings[-1].curve.samples >= 8


def test_a_single_jump_teaches_nothing() -> None:
    """When within the interval the batch filled is unknown."""
    readings = follow([0.3] * 20 + [0.8] + [0.8] * 3, 0.0)
    assert readings[20].rate is None
    assert readings[21].rate == pytest.approx(10.0, rel=0.01)


def test_noise_is_no_move() -> None:
    """±20 % on every figure for hours: the bend that was assumed stays."""
    for seed in range(10):
        readings = follow([0.6] * 720, 0.4, noise=0.2, seed=seed)
        assert not any(reading.moved for reading in readings[60:])


def test_fuller_and_faster_is_no_move_along_a_curve() -> None:
    """An engine that was hampered and is not any more has another curve, not a bend."""
    curve = follow([0.4] * 30, 0.4)[-1].curve
    reading = read(curve, 0.9, SLOTS, 0.65 * SLOTS / 0.03, TARGET, 5.0)
    assert not reading.moved


def test_a_silence_is_bridged_by_nothing() -> None:
    """Full before a silence, empty after it: the mean of both never was."""
    curve = forget_last(follow([0.9] * 30, 0.4)[-1].curve)
    assert read(curve, 0.1, SLOTS, 5.0, TARGET, 5.0).rate is None


def test_above_the_target_no_credit_is_given() -> None:
    readings = follow([1.0] * 30, 0.7)
    assert readings[-1].rate == pytest.approx(1.0 / pace(1.0, 0.7))


@given(
    occupancies=st.lists(st.floats(0, 1.05), min_size=1, max_size=40),
    made=st.lists(st.floats(0, 1e6), min_size=40, max_size=40),
)
def test_any_history_gives_a_finite_rate_and_a_bend_in_its_bounds(occupancies: list[float], made: list[float]) -> None:
    """Invariant: rates are positive and finite, the bend stays within [0, 1.05], variances are not negative."""
    curve = Curve()
    for occupancy, tokens in zip(occupancies, made, strict=False):
        reading = read(curve, occupancy, SLOTS, tokens, TARGET, 5.0)
        curve = reading.curve
        assert reading.rate is None or 0.0 < reading.rate < float("inf")
        assert 0.0 <= curve.bend <= 1.05
        assert curve.noise >= 0.0


def report(running: float, arrived: float, ended: float, prompt: float, generated: float) -> DeploymentReport:
    return DeploymentReport(
        "m", "1", Replicas(1, 1), max_running=SLOTS, running=running, arrived=Arrived(arrived, None),
        completed=Completed(ended, prompt, generated),
    )  # fmt: skip


def test_prompts_of_a_surge_are_not_capacity() -> None:
    """Requests of 900 + 100 tokens hold a slot for 10 s. When arrivals double, prompts do at once and answers do not:
    the rate per slot moves by less than a tenth, where the plain sum says half as much again."""
    known = Learnt(Tracker(), Curve(), Mix())
    for _ in range(60):
        known = learn(known, report(50, 5, 5, 4_500, 500), 5.0, TARGET)
    before = known.rate.published
    surge = learn(known, report(60, 10, 5, 9_000, 550), 5.0, TARGET)
    assert surge.rate.fast == pytest.approx(before, rel=0.1)
    assert (9_000 + 550) / 55 > 1.5 * (4_500 + 500) / 50


def test_a_start_up_is_forgotten_when_the_slots_have_turned_over() -> None:
    """Before anything ended there is no balance of prompts and answers; what was believed then does not linger."""
    known = Learnt(Tracker(), Curve(), Mix())
    for running in (10, 20, 30, 40, 50):
        known = learn(known, report(running, 5, 0, 4_500, running * 8.0), 5.0, TARGET)
    for _ in range(12):
        known = learn(known, report(50, 5, 5, 4_500, 500), 5.0, TARGET)
    flat = 100.0 * (1.0 - known.curve.bend * (TARGET - 0.5))
    assert known.mix.balanced
    assert known.rate.published == pytest.approx(flat, rel=0.05)


def test_lost_replicas_do_not_make_the_others_look_fast() -> None:
    """Half the slots are gone between two reports: what ran is now twice as much of what is left."""
    curve = follow([0.5] * 30, 0.0)[-1].curve
    reading = read(curve, 1.0, SLOTS / 2, 500.0, TARGET, 5.0)
    assert reading.rate == pytest.approx(10.0, rel=0.02)
