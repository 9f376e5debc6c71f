"""The engine model: it conserves work, and does what continuous batching does."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from director.sim.scenario import EngineSpec, StepTime
from director.sim.world.engine import Engine, capacity_requests_per_s
from tests.sim.works import completed_per_s, make_work

FLAT = EngineSpec(StepTime(50, 50), max_running=8, prefill_tokens_per_s=1e9, kv_tokens=1e9)


def test_one_request_takes_its_steps_and_no_longer() -> None:
    """Alone, a request of 100 tokens at 50 ms a step is done after 5 s."""
    engine = Engine(FLAT, 1)
    engine.submit(make_work(1), 0.0)
    engine.advance(10.0)
    assert [work.done_s for work in engine.finished] == [pytest.approx(5.0, abs=0.01)]


def test_requests_beyond_the_slots_wait_in_order() -> None:
    """Nine equal requests on eight slots: the ninth starts when the first eight end."""
    engine = Engine(FLAT, 1)
    for number in range(9):
        engine.submit(make_work(number), 0.0)
    assert (engine.running, engine.waiting) == (8, 1)
    engine.advance(20.0)
    assert engine.finished[-1].number == 8
    assert engine.finished[-1].done_s == pytest.approx(10.0, abs=0.05)


def test_a_fuller_batch_steps_more_slowly() -> None:
    """Eight requests together take as long as a full step says, one alone as an empty one."""
    spec = EngineSpec(StepTime(10, 40), max_running=8, prefill_tokens_per_s=1e9, kv_tokens=1e9)
    alone, together = Engine(spec, 1), Engine(spec, 1)
    alone.submit(make_work(1), 0.0)
    for number in range(8):
        together.submit(make_work(number), 0.0)
    alone.advance(10.0)
    together.advance(10.0)
    assert alone.finished[0].done_s == pytest.approx(1.375, abs=0.01)
    assert together.finished[0].done_s == pytest.approx(4.0, abs=0.01)


def test_prefill_sets_the_first_token_and_slows_the_rest() -> None:
    """A long prompt takes its prefill time to a first token, and holds up those who decode beside it."""
    spec = EngineSpec(StepTime(10, 10), max_running=8, prefill_tokens_per_s=1000, prefill_share=0.5, kv_tokens=1e9)
    engine = Engine(spec, 1)
    engine.submit(make_work(1, prompt=1, generated=1000), 0.0)
    engine.advance(1.0)
    engine.submit(make_work(2, prompt=1000, generated=10), 1.0)
    engine.advance(30.0)
    first, second = sorted(engine.finished, key=lambda work: work.number)
    assert second.first_token_s == pytest.approx(3.0, abs=0.05)
    assert first.done_s == pytest.approx(11.0, abs=0.1)


def test_a_later_turn_finds_its_prefix_warm() -> None:
    """The second turn of a session prefills only what is new, until its cache is lost with the region."""
    spec = EngineSpec(StepTime(10, 10), max_running=8, prefill_tokens_per_s=1000, prefix_share=0.75, kv_tokens=1e6)
    engine = Engine(spec, 1)
    engine.submit(make_work(1, prompt=1000, generated=10, session=7), 0.0)
    engine.advance(5.0)
    engine.submit(make_work(2, prompt=1000, generated=10, session=7), 5.0)
    engine.advance(10.0)
    engine.fail_all(10.0)
    engine.submit(make_work(3, prompt=1000, generated=10, session=7), 10.0)
    engine.advance(20.0)
    times = {work.number: work.first_token_s - work.arrived_s for work in engine.first_tokens}
    assert times == {1: pytest.approx(1.0, abs=0.01), 2: pytest.approx(0.25, abs=0.01), 3: pytest.approx(1.0, abs=0.01)}


def test_full_kv_preempts_the_latest_and_loses_nothing() -> None:
    """When what is generated outgrows the KV cache, the request that came last is computed again, and all finish."""
    spec = EngineSpec(StepTime(10, 10), max_running=8, prefill_tokens_per_s=1e6, kv_tokens=1000, kv_admit=1.0)
    engine = Engine(spec, 1)
    for number in range(4):
        engine.submit(make_work(number, prompt=200, generated=200), 0.0)
    for second in range(1, 200):
        engine.advance(second / 10)
        assert engine.kv_used <= engine.kv_total * 1.2
    assert engine.counters.preempted > 0
    assert sorted(work.number for work in engine.finished) == [0, 1, 2, 3]


def test_a_dark_region_loses_what_ran() -> None:
    engine = Engine(FLAT, 1)
    for number in range(10):
        engine.submit(make_work(number), 0.0)
    assert len(engine.fail_all(1.0)) == 10
    engine.advance(30.0)
    assert (engine.running, engine.waiting, engine.finished) == (0, 0, [])


def test_lost_replicas_send_their_requests_back_to_the_queue() -> None:
    """Half the replicas gone: half of what ran starts again, nothing is lost, and no more runs than there are slots."""
    engine = Engine(FLAT, 2)
    for number in range(16):
        engine.submit(make_work(number), 0.0)
    engine.set_replicas(1, 1.0)
    assert engine.counters.restarted == 8
    assert engine.running <= engine.slots == 8
    engine.advance(60.0)
    assert len(engine.finished) == 16


@given(st.integers(0, 2**32), st.floats(0.1, 1.5), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_work_is_conserved(seed: int, load: float, replicas: int) -> None:
    """Invariant: every request is waiting, inside, or finished; tokens generated are those of the requests; no request
    ends before its steps are done; no more run than there are slots."""
    random = Random(seed)
    spec = EngineSpec(StepTime(5, 20), max_running=16, prefill_tokens_per_s=20_000, kv_tokens=20_000)
    engine = Engine(spec, replicas)
    rate = load * capacity_requests_per_s(spec, replicas, 200, 50)
    at_s, sent = 0.0, []
    while at_s < 20.0:
        at_s += random.expovariate(rate)
        work = make_work(len(sent), prompt=float(random.randint(1, 400)), generated=float(random.randint(1, 100)))
        sent.append((work, work.generated))
        engine.submit(work, at_s)
        if random.random() < 0.01:
            engine.set_replicas(random.randint(1, replicas), at_s)
        assert engine.running <= engine.slots or engine.counters.restarted
    assert engine.running + engine.waiting + len(engine.finished) == len(sent)
    engine.set_replicas(replicas, at_s)
    engine.advance(at_s + 3600.0)
    assert len(engine.finished) == len(sent)
    asked = sum(generated for _, generated in sent)
    assert engine.counters.generated_tokens == pytest.approx(asked, rel=1e-6) or engine.counters.restarted
    for work, generated in sent:
        assert (
            work.done_s - work.arrived_s >= (generated - 1) * spec.step_ms.empty / 1000 * 0.99 or work.stage == "done"
        )
        assert work.arrived_s <= work.first_token_s <= work.done_s


@pytest.mark.parametrize(("empty", "full", "prefill"), [(50, 50, 1e6), (20, 60, 1e6), (20, 60, 20_000)])
def test_nominal_capacity_is_what_the_engine_reaches(empty: float, full: float, prefill: float) -> None:
    """Kept full, the engine completes what the formula says, within 3 %."""
    spec = EngineSpec(StepTime(empty, full), max_running=32, prefill_tokens_per_s=prefill, kv_tokens=1e9)
    engine = Engine(spec, 2)
    expected = capacity_requests_per_s(spec, 2, 500, 100)
    assert completed_per_s(engine, 0.1) == pytest.approx(expected, rel=0.03)
