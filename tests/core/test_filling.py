"""How full a deployment is between reports, and what that knowledge is used for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.core.admission import admit
from director.core.curve import Curve, read
from director.core.filling import UNKNOWN, Filling, life_s, moved_on, reported
from director.core.plan import DeploymentKey
from director.core.policy import Planner
from director.core.report import Completed, DeploymentReport, Replicas
from director.core.room import Flow, Room
from director.core.rounds import Lane, home_shares

LIVES_15_S = DeploymentReport("m", "1", Replicas(1, 1), running=150.0, completed=Completed(requests_per_s=10.0))


def after(filling: Filling, sent: float, seconds: int) -> Filling:
    for _ in range(seconds):
        filling = moved_on(filling, sent, 1000.0, 15.0, 1.0)
    return filling


def test_a_life_is_running_over_completed() -> None:
    assert life_s(LIVES_15_S) == 15.0
    assert life_s(DeploymentReport("m", "1", Replicas(1, 1))) == 15.0


def test_slots_fill_by_what_was_sent_within_a_few_lives() -> None:
    """One life closes 63 % of the gap."""
    start = reported(UNKNOWN, 0.2)
    assert after(start, 900.0, 15).now == pytest.approx(0.2 + 0.7 * 0.632, abs=0.01)
    assert after(start, 900.0, 90).now == pytest.approx(0.9, abs=0.01)


def test_a_fuller_report_is_believed_and_an_emptier_one_by_half() -> None:
    assert reported(Filling(0.5), 0.8).now == 0.8
    assert reported(Filling(0.5), 0.3).now == 0.4
    assert not reported(Filling(0.5), None).known


def test_unknown_stays_unknown() -> None:
    assert not after(UNKNOWN, 900.0, 60).known
    assert UNKNOWN.bow == 0.0


@given(first=st.floats(0, 1.5), sent=st.floats(0, 5000), seconds=st.integers(1, 60))
def test_the_mean_of_an_interval_is_no_ratio_outside_its_ends(first: float, sent: float, seconds: int) -> None:
    filling = after(reported(UNKNOWN, first), sent, seconds)
    low, high = sorted((min(1.0, first), min(1.0, filling.now)))
    assert low - 1e-9 <= (min(1.0, first) + min(1.0, filling.now)) / 2 + filling.bow <= high + 1e-9


def test_a_batch_that_filled_early_is_no_slow_engine() -> None:
    """60 % → 90 % within the first seconds of a 15 s interval, at a flat 10 tokens/s per slot: the rate is right within
    2 %, where the mean of both ends would say 15 % more."""
    foreseen = reported(UNKNOWN, 0.6)
    made = 0.0
    for _ in range(15):
        foreseen = moved_on(foreseen, 900.0, 1000.0, 2.0, 1.0)
        made += foreseen.now * 100.0 * 10.0 / 15.0
    steady = read(read(Curve(), 0.6, 100.0, 600.0, 0.9, 5.0).curve, 0.6, 100.0, 600.0, 0.9, 5.0).curve
    rate = read(steady, 0.9, 100.0, made, 0.9, 15.0, foreseen).rate
    unaware = read(steady, 0.9, 100.0, made, 0.9, 15.0).rate
    assert rate is not None
    assert unaware is not None
    assert abs(rate - 10.0) < abs(unaware - 10.0) / 2


def one_region(filling: Filling, demand: float, *, gate: float = 1.0, share: bool = False) -> Room:
    """A region of 1,000 tokens/s whose only route asks for `demand`, admitted."""
    room = Room(
        DeploymentKey("a", "m", "1"),
        capacity=1000.0,
        usable=True,
        fresh=True,
        trial_ratio=None,
        pinned=0.0,
        kappa=1.0,
        admit_home_before=gate,
        guest_gate=gate,
        admit_rise_max=0.02,
        capacity_now=1000.0,
        filling=filling,
        life_s=15.0,
    )
    admit(
        [room],
        [Flow(demand, False, share, Lane([1.0], 8.0, home_shares([1.0], [1000.0], 8.0)), [room])],
        Planner(),
    )
    return room


def test_empty_slots_take_a_burst_that_no_rate_would() -> None:
    """2,000 tokens/s on a region of 1,000 that is 20 % full: nobody is refused while it fills; once full, as ever."""
    assert one_region(Filling(0.2), 2000.0).taken == pytest.approx(2000.0)
    assert one_region(Filling(0.9), 2000.0).taken == pytest.approx(900.0)
    assert one_region(UNKNOWN, 2000.0).taken == pytest.approx(900.0)


def test_a_region_that_comes_back_is_not_filled_for_being_empty() -> None:
    """Slow start knows why it is empty: relief stays at the sustained target."""
    assert one_region(Filling(0.0), 5000.0, gate=0.1).taken == pytest.approx(900.0)


def test_nobody_is_refused_for_a_demand_that_is_over() -> None:
    """3,000 are published and 1,050 are left of them: all of them fit below the ceiling."""
    room = Room(DeploymentKey("a", "m", "1"), 1000.0, True, True, None, 0.0, 1.0, 1.0, 1.0, 0.02, capacity_now=1000.0)
    lane = Lane([1.0], 8.0, home_shares([1.0], [1000.0], 8.0))
    admit([room], [Flow(3000.0, False, True, lane, [room], 1050.0)], Planner())
    assert lane.left == pytest.approx(0.0, abs=1e-6)
