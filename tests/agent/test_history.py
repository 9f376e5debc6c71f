"""Rates survive restarts, silence and everything counters do; quantiles survive different buckets."""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.agent.histogram import quantile_s, summed
from director.agent.history import SILENCE_S_MAX, History
from director.agent.reading import Counted, Reading


def reading(**counters: float) -> Reading:
    return Reading(running=1.0, waiting=0.0, counters=counters)


steps = st.lists(
    st.tuples(st.floats(0.1, 30), st.booleans(), st.floats(0, 1e6), st.floats(0, 1)), min_size=1, max_size=30
)


@given(steps)
def test_no_restart_makes_a_rate_negative_or_errors_outnumber_requests(
    life: list[tuple[float, bool, float, float]],
) -> None:
    """Requests and errors grow, and now and then the process begins anew; an error is always a request too."""
    history, at_s, requests, errors, started_at_s = History(), 0.0, 0.0, 0.0, 1_000.0
    for wait_s, restarts, more, error_ratio in life:
        if restarts:
            requests = errors = 0.0
            started_at_s += 100.0
        at_s, requests, errors = at_s + wait_s, requests + more, errors + more * error_ratio
        counters = {"requests_completed": requests, "errors_server": errors}
        history.add(Reading(running=1.0, counters=counters, started_at_s=started_at_s), at_s)
        rates = history.rates()
        if rates is not None:
            assert rates.per_s["requests_completed"] >= 0
            assert rates.per_s["errors_server"] >= 0
            assert rates.per_s["errors_server"] <= rates.per_s["requests_completed"] + 1e-6


def test_a_steady_counter_has_its_rate() -> None:
    """Whatever the phase of the scrapes."""
    history = History()
    for at_s in (0.0, 4.1, 9.9, 15.0, 20.2):
        history.add(reading(requests_completed=7.0 * at_s), at_s)
        rates = history.rates()
        assert rates is None or rates.per_s["requests_completed"] == pytest.approx(7.0)
    assert history.rates() is not None


def test_another_start_time_is_another_process_even_where_no_counter_fell() -> None:
    """It caught up with its former self between two scrapes: all it counted is new."""
    history = History()
    history.add(Reading(running=1.0, counters={"requests_completed": 100.0}, started_at_s=1_000.0), 0.0)
    history.add(Reading(running=1.0, counters={"requests_completed": 150.0}, started_at_s=2_000.0), 10.0)
    rates = history.rates()
    assert rates is not None
    assert rates.per_s["requests_completed"] == pytest.approx(15.0)
    assert history.resets == 1


def test_after_a_long_silence_the_first_scrape_is_a_beginning() -> None:
    """Nobody knows when what was counted meanwhile happened."""
    history = History()
    history.add(reading(requests_completed=100.0), 0.0)
    history.add(reading(requests_completed=200.0), 5.0)
    history.add(reading(requests_completed=900_000.0), 5.0 + SILENCE_S_MAX + 1)
    assert history.rates() is None


def test_a_counter_that_appears_later_began_at_zero() -> None:
    """Pickers write an error code's series when it first happens."""
    history = History()
    history.add(reading(requests_arrived=10.0), 0.0)
    history.add(reading(requests_arrived=20.0, errors_server=3.0), 5.0)
    rates = history.rates()
    assert rates is not None
    assert rates.per_s["errors_server"] == pytest.approx(0.6)


def test_a_counter_that_is_missing_once_goes_on_from_where_it_was() -> None:
    """A scrape without it, or with NaN, is no life that began at 0: its return is no burst."""
    history = History()
    for at_s, counters in ((0.0, {"a": 1e6, "b": 0.0}), (5.0, {"b": 5.0}), (10.0, {"a": 1e6 + 10, "b": 10.0})):
        history.add(reading(**counters), at_s)
    rates = history.rates()
    assert rates is not None
    assert rates.per_s == pytest.approx({"a": 1.0, "b": 1.0})
    history.add(reading(b=12.0), 15.0)
    history.add(reading(a=8.0, b=13.0), 20.0)
    assert history.resets == 1


def test_first_token_times_that_are_missing_once_are_not_counted_again() -> None:
    """A histogram that returns holds what it held."""
    history = History()
    for at_s, count in ((0.0, 1_000.0), (5.0, None), (10.0, 1_003.0)):
        buckets = None if count is None else ((0.1, count), (math.inf, count))
        history.add(Reading(running=1.0, ttft_buckets=buckets), at_s)
    assert history.ttft()[-1][1] == 3.0


def gathered(**processes: float) -> Reading:
    """What each of several processes counted, in one dump."""
    parts = {name: Counted({"requests_completed": n}, ((0.1, n), (math.inf, n))) for name, n in processes.items()}
    whole = sum(processes.values())
    return Reading(
        running=1.0, counters={"requests_completed": whole}, ttft_buckets=((math.inf, whole),), processes=parts
    )


@pytest.mark.parametrize(
    "then",
    [
        {"a": 1e6 + 10},
        {"a": 1e6 + 10, "b": 5e5, "c": 8e5},
        {"a": 1e6 + 10, "c": 8e5},
    ],
)
def test_processes_that_come_and_go_behind_one_dump_are_no_burst(then: dict[str, float]) -> None:
    """A fallen sum is not a restart of all of them, and who is first seen has no rate yet."""
    history = History()
    history.add(gathered(a=1e6, b=5e5), 0.0)
    history.add(gathered(**then), 10.0)
    rates = history.rates()
    assert rates is not None
    assert rates.per_s["requests_completed"] == pytest.approx(1.0)
    assert history.ttft()[-1][1] == 10.0
    assert history.resets == 0


def test_one_of_several_processes_restarts_alone() -> None:
    """It counted 12 since; the others went on."""
    history = History()
    history.add(gathered(a=1e6, b=5e5), 0.0)
    history.add(gathered(a=1e6 + 8, b=12), 10.0)
    rates = history.rates()
    assert rates is not None
    assert rates.per_s["requests_completed"] == pytest.approx(2.0)
    assert history.resets == 1


@st.composite
def histograms(draw: st.DrawFn) -> tuple[tuple[float, float], ...]:
    bounds = sorted(draw(st.sets(st.floats(0.001, 100), min_size=1, max_size=8)))
    counts = accumulate(draw(st.lists(st.integers(0, 50), min_size=len(bounds) + 1, max_size=len(bounds) + 1)))
    return tuple(zip([*bounds, math.inf], map(float, counts), strict=True))


@given(st.lists(histograms(), min_size=1, max_size=5))
def test_a_sum_of_histograms_loses_no_count_and_its_quantiles_grow(
    parts: list[tuple[tuple[float, float], ...]],
) -> None:
    """Bounds may differ, as between two releases side by side."""
    whole = summed(parts)
    assert whole[-1][1] == pytest.approx(sum(part[-1][1] for part in parts))
    counts = [count for _, count in whole]
    assert all(a <= b + 1e-9 for a, b in pairwise(counts))
    quantiles = [quantile_s(whole, q) for q in (0.1, 0.5, 0.9, 0.99)]
    known = [q for q in quantiles if q is not None]
    assert len(known) in (0, 4)
    assert known == sorted(known)


def test_a_quantile_beyond_the_last_bound_is_the_last_bound() -> None:
    """Infinity is no milliseconds."""
    assert quantile_s(((1.0, 0.0), (math.inf, 5.0)), 0.5) == 1.0
    assert quantile_s((), 0.5) is None
