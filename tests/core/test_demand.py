"""κ: what really arrives for what was decided."""

from __future__ import annotations

from random import Random

import pytest
from msgspec import structs

from director.core.demand import correct
from director.core.plan import DeploymentKey
from director.core.report import DeploymentReport, Replicas
from director.core.state import DeploymentMemory

KEY = DeploymentKey("eu", "m", "1")


def told(memory: DeploymentMemory, arrived: float | None, decided: float, reports: int = 1) -> DeploymentMemory:
    """Reports each 5 s of these arrivals for these decisions, tokens/s."""
    for _ in range(reports):
        memory = structs.replace(memory, decided_since_report=decided * 5.0, foreseen_since_report=decided * 5.0)
        memory = correct(memory, arrived, 5.0)
    return memory


@pytest.fixture
def fresh() -> DeploymentMemory:
    return DeploymentMemory(KEY, DeploymentReport("m", "1", Replicas(1, 1)))


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_wrong_estimates_are_corrected(fresh: DeploymentMemory, ratio: float) -> None:
    assert told(fresh, 1000.0 * ratio, 1000.0, 6).kappa == pytest.approx(ratio, rel=0.06)


def test_a_step_that_decisions_announce_is_no_wrong_estimate(fresh: DeploymentMemory) -> None:
    """Demand doubles and both see it, one of them a report late: κ stays."""
    memory = told(fresh, 1000.0, 1000.0, 60)
    for arrived, decided in ((2000.0, 1000.0), (2000.0, 2000.0), (2000.0, 2000.0), (2000.0, 2000.0)):
        memory = told(memory, arrived, decided)
        assert memory.kappa == pytest.approx(1.0, abs=0.15)


def test_where_answers_are_shared_a_step_is_seen_in_two_reports(fresh: DeploymentMemory) -> None:
    """Resolvers ask no more often when their clients double; arrivals say so."""
    memory = told(fresh, 20_000.0, 1000.0, 60)
    assert memory.kappa == pytest.approx(20.0, rel=0.06)
    memory = told(memory, 40_000.0, 1000.0, 2)
    assert memory.kappa == pytest.approx(40.0, rel=0.1)


def test_the_report_in_which_a_step_fell_is_not_its_level(fresh: DeploymentMemory) -> None:
    """It fell late in the first report's interval, which shows a third of it; the second shows it whole. Down as up."""
    memory = told(fresh, 20_000.0, 1000.0, 60)
    for whole, part in ((40_000.0, 27_000.0), (16_000.0, 32_000.0)):
        memory = told(told(memory, part, 1000.0), whole, 1000.0)
        assert memory.kappa == pytest.approx(whole / 1000.0, rel=0.01)


def test_one_odd_report_is_no_step(fresh: DeploymentMemory) -> None:
    """A burst that is over with the next report moves κ no further than an average does, and adds no noise."""
    memory = told(fresh, 20_000.0, 1000.0, 60)
    after = told(told(memory, 60_000.0, 1000.0), 20_000.0, 1000.0)
    assert after.kappa < 25.0
    assert after.arrivals.noise == pytest.approx(memory.arrivals.noise)
    assert after.arrivals.published == pytest.approx(20_000.0, rel=0.01)


def test_where_answers_are_shared_it_counts_where_they_send_and_not_where_they_went(fresh: DeploymentMemory) -> None:
    """Two decisions a second: their picks are dice, their shares are not."""
    draw, memory = Random(1), told(fresh, 20_000.0, 1000.0, 60)
    for _ in range(120):
        picked = draw.choice([0.0, 2000.0])
        memory = structs.replace(memory, decided_since_report=picked * 5.0, foreseen_since_report=5000.0)
        memory = correct(memory, 20_000.0, 5.0)
        assert memory.kappa == pytest.approx(20.0, rel=0.06)


def test_while_shared_answers_expire_kappa_waits(fresh: DeploymentMemory) -> None:
    """Decisions were just halved; arrivals will follow as answers expire, and until then their ratio means nothing."""
    memory = told(fresh, 20_000.0, 1000.0, 60)
    memory = told(memory, 20_000.0, 500.0, 4)
    assert memory.kappa == pytest.approx(20.0, rel=0.06)


def test_noise_of_both_moves_no_kappa(fresh: DeploymentMemory) -> None:
    """±20 % on every report for five hours of steady load: κ was learnt in the first minutes and stays."""
    for seed in range(5):
        draw, memory = Random(seed), fresh
        seen = set()
        for number in range(720):
            memory = told(memory, 1000.0 * draw.uniform(0.8, 1.2), 1000.0 * draw.uniform(0.9, 1.1))
            if number >= 60:
                seen.add(memory.kappa)
        assert len(seen) == 1
        assert memory.kappa == pytest.approx(1.0, abs=0.08)


def test_an_estimate_that_turns_wrong_is_still_followed(fresh: DeploymentMemory) -> None:
    """After an hour of noise the answers become three times as long."""
    draw, memory = Random(3), fresh
    for _ in range(720):
        memory = told(memory, 1000.0 * draw.uniform(0.8, 1.2), 1000.0)
    for _ in range(60):
        memory = told(memory, 2500.0 * draw.uniform(0.8, 1.2), 1000.0)
    assert memory.kappa == pytest.approx(2.5, rel=0.15)


def test_what_cannot_be_compared_is_left_out(fresh: DeploymentMemory) -> None:
    """No arrivals in a report, or none that count: κ stays, and the decisions of that span are forgotten."""
    memory = told(fresh, 1000.0, 1000.0, 20)
    after = told(memory, None, 50_000.0, 5)
    assert (after.kappa, after.decided_since_report) == (memory.kappa, 0.0)
    assert told(after, 1000.0, 1000.0, 5).kappa == pytest.approx(1.0, rel=0.06)


def test_averages_are_never_negative(fresh: DeploymentMemory) -> None:
    """Whatever spans and figures come first."""
    draw, memory = Random(5), fresh
    for _ in range(300):
        memory = correct(memory, draw.choice([0.0, 1e3, 1e6, None]), draw.choice([0.1, 2.0, 7.0, 60.0]))
        assert min(memory.arrived_tokens, memory.decided_tokens, memory.decided_fast, memory.background.published) >= 0
        assert memory.kappa > 0
