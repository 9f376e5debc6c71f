"""The arithmetic that judges: settling, swings, reversals, quantiles."""

from __future__ import annotations

import pytest

from director.sim import figures


def test_a_step_that_stays_settles_at_its_step() -> None:
    assert figures.settle_after([0.0] * 7 + [0.4] * 53) == 7


def test_a_slow_approach_settles_when_it_is_within_a_tenth() -> None:
    series = [0.4 * (1 - 0.9**i) for i in range(100)]
    assert figures.settle_after(series) == next(i for i, value in enumerate(series) if value >= 0.36 - 1e-3)


def test_what_never_stays_never_settles_early() -> None:
    """A square wave is within a tenth of its mean at no time."""
    series = ([0.0] * 10 + [1.0] * 10) * 6
    assert figures.settle_after(series) == len(series)


def test_reversals_count_turns_of_at_least_the_amplitude() -> None:
    assert figures.reversals([0, 0.5, 1.0, 0.5, 0.0, 0.5, 1.0], 0.3) == 2
    assert figures.reversals([0, 0.05, 0.0, 0.05, 0.0], 0.3) == 0
    assert figures.reversals([0.0, 1.0, 0.95, 1.0, 0.95], 0.1) == 0
    assert figures.reversals([], 0.1) == 0


def test_quantiles_are_by_rank() -> None:
    assert figures.quantile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert figures.quantile([1.0], 0.99) == 1.0
    assert figures.quantile([], 0.5) == 0.0


def test_means_look_back_only() -> None:
    assert figures.means([1.0, 3.0, 5.0, 7.0], 2) == [1.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize(("hits", "sigmas"), [(50, 0.0), (70, 4.0), (30, 4.0)])
def test_a_split_is_judged_in_standard_deviations(hits: int, sigmas: float) -> None:
    assert figures.binomial_sigmas(hits, 100, 0.5) == pytest.approx(sigmas)
