"""Who asks: arrivals, lengths, sessions, traces."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from director.sim.scenario import TraceFile
from director.sim.world.demand import Session, SessionPool, Stream
from director.sim.world.lengths import PRESETS, LengthPool
from director.sim.world.trace import TraceArrivals, TraceUnusable
from tests.sim.scenarios import small


def _stream(unit_per_s: float = 1.0, **changes: object) -> Stream:
    scenario = small(**{f"demand__north__{key}": value for key, value in changes.items()})
    return Stream("north", 0, scenario.demand["north"], unit_per_s, "seed")


def test_arrivals_follow_the_steps() -> None:
    """100 a second, then 300: counts within five standard deviations."""
    stream = _stream(steps=[[0, 100], [50, 300]])
    before = sum(len(stream.arrivals(second)) for second in range(50))
    after = sum(len(stream.arrivals(second)) for second in range(50, 100))
    assert abs(before - 5_000) < 5 * 5_000**0.5
    assert abs(after - 15_000) < 5 * 15_000**0.5


def test_arrivals_are_ascending_within_their_second() -> None:
    stream = _stream(steps=[[0, 40]])
    for second in range(20):
        times = stream.arrivals(second)
        assert times == sorted(times)
        assert all(second <= at_s < second + 1 for at_s in times)


def test_a_day_has_its_peak_and_its_trough() -> None:
    stream = _stream(steps=None, diurnal={"level": 10, "amplitude": 0.8, "period_s": 100, "peak_at_s": 25})
    assert stream.rate_per_s(25) == pytest.approx(18.0)
    assert stream.rate_per_s(75) == pytest.approx(2.0)


def test_bursts_keep_the_mean_and_add_variance() -> None:
    """The variance of the counts, over their mean, is 1 for Poisson and what the coefficient of variation adds."""
    calm, wild = _stream(steps=[[0, 100]]), _stream(steps=[[0, 100]], bursts={"cv": 0.5, "every_s": 1})

    def dispersion(stream: Stream) -> tuple[float, float]:
        counts = [len(stream.arrivals(second)) for second in range(600)]
        mean = sum(counts) / len(counts)
        return mean, sum((count - mean) ** 2 for count in counts) / len(counts) / mean

    (calm_mean, calm_ratio), (wild_mean, wild_ratio) = dispersion(calm), dispersion(wild)
    assert calm_mean == pytest.approx(100, rel=0.03)
    assert wild_mean == pytest.approx(100, rel=0.08)
    assert calm_ratio == pytest.approx(1.0, abs=0.25)
    assert wild_ratio == pytest.approx(1 + 100 * 0.25, rel=0.25)


@pytest.mark.parametrize("preset", PRESETS)
def test_lengths_have_the_mean_that_is_asked_for(preset: str) -> None:
    pool = LengthPool(PRESETS[preset], Random(1))
    assert pool.prompt_mean == pytest.approx(PRESETS[preset].prompt.mean, rel=0.03)
    assert pool.generated_mean == pytest.approx(PRESETS[preset].generated.mean, rel=0.03)
    assert min(min(pair) for pair in pool.pairs) >= 1


def test_estimates_are_off_by_their_ratio() -> None:
    stream = _stream(estimates={"ratio": 0.5, "cv": 0.3})
    guesses = []
    for _ in range(2_000):
        stream.next_lengths()
        guesses.append(stream.estimate(1_000.0))
    assert sum(guesses) / len(guesses) == pytest.approx(500.0, rel=0.03)
    assert len(set(guesses)) > 500


def test_later_turns_belong_to_sessions_that_live() -> None:
    """Three quarters of the arrivals continue a session begun within its life, and none an older one."""
    pool = SessionPool(0.75, 60.0, Random(3))
    later = 0
    for number in range(20_000):
        now_s = number / 20
        session = pool.turn(now_s)
        if session is None:
            pool.begin(Session(number, str(number), now_s))
        else:
            later += 1
            assert now_s - session.begun_s <= 60.0
    assert later / 20_000 == pytest.approx(0.75, abs=0.02)


AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:46.9951690,396,109
2023-11-16 18:15:48.2224670,879,55
"""
MOONCAKE = """{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 1500, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}
"""


def test_a_trace_in_the_azure_format_gives_its_arrivals(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(AZURE)
    trace = TraceArrivals(TraceFile(str(tmp_path / "trace.csv"), "azure"))
    assert [len(trace.times(second)) for second in range(3)] == [2, 1, 2], "it starts again at its end"
    assert [trace.lengths() for _ in range(3)] == [(374.0, 44.0), (396.0, 109.0), (879.0, 55.0)]


def test_a_trace_in_the_mooncake_format_is_scaled_and_shifted(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text(MOONCAKE)
    trace = TraceArrivals(TraceFile(str(tmp_path / "trace.jsonl"), "mooncake", scale=2.0, shift_s=1.0))
    times = trace.times(0)
    assert len(times) == 2
    assert all(0.0 <= at_s < 1.0 for at_s in times)
    assert [trace.lengths() for _ in range(2)] == [(7322.0, 490.0)] * 2


def test_a_broken_trace_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(AZURE + "yesterday,1,2\n")
    with pytest.raises(TraceUnusable, match=r"trace\.csv:5: expected TIMESTAMP, ContextTokens, GeneratedTokens"):
        TraceArrivals(TraceFile(str(tmp_path / "trace.csv"), "azure"))


def test_a_missing_trace_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceUnusable, match="No such file"):
        TraceArrivals(TraceFile(str(tmp_path / "none.csv"), "azure"))
