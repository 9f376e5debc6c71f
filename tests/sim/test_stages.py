"""Prefill and decode apart: nothing is lost between the two, and neither slows the other."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from director.sim.scenario import Deployment, EngineSpec, StepTime
from director.sim.world.stages import StagedEngine, sustained_requests_per_s
from tests.sim.works import completed_per_s, make_work

SPEC = EngineSpec(StepTime(50, 50), max_running=8, prefill_tokens_per_s=1000, kv_tokens=1e9, prefill_running=2)


def test_a_request_is_prefilled_and_then_decoded() -> None:
    """1000 tokens at 1000 a second to the first token, then 100 steps of 50 ms; it arrived when it was submitted."""
    engine = StagedEngine(SPEC, 1, 1)
    engine.submit(make_work(1, prompt=1000), 2.0)
    engine.advance(20.0)
    (work,) = engine.finished
    assert work.arrived_s == 2.0
    assert work.first_token_s == pytest.approx(3.0)
    assert work.done_s == pytest.approx(8.0, abs=0.01)


def test_a_long_prompt_does_not_slow_who_decodes() -> None:
    """Where one replica does both, a prompt of ten seconds holds up the batch; here it holds up prompts alone."""
    engine = StagedEngine(SPEC, 1, 1)
    engine.submit(make_work(1, prompt=1), 0.0)
    engine.advance(1.0)
    engine.submit(make_work(2, prompt=10_000), 1.0)
    engine.submit(make_work(3, prompt=1), 1.0)
    engine.advance(30.0)
    done_s = {work.number: work.done_s for work in engine.finished}
    assert done_s[1] == pytest.approx(5.0, abs=0.02)
    assert done_s[3] > 11.0


def test_the_worse_stage_is_the_utilisation() -> None:
    """Three prompts at a prefill stage of two places: 1.5 there, nothing in decode; and waiting is counted once."""
    engine = StagedEngine(SPEC, 1, 1)
    for number in range(3):
        engine.submit(make_work(number, prompt=1000), 0.0)
    assert (engine.utilisation, engine.waiting, engine.running) == (1.5, 1, 0)
    engine.advance(3.1)
    assert engine.utilisation == pytest.approx(3 / 8)
    assert engine.waiting == 0


def test_a_warm_prefix_spares_the_prefill_stage() -> None:
    """A session's second turn prefills half of its prompt, as in an engine that does both."""
    engine = StagedEngine(SPEC, 1, 1)
    for at_s in (0.0, 10.0):
        engine.submit(make_work(1, prompt=1000, session=7), at_s)
        engine.advance(at_s + 10.0)
    assert [work.first_token_s - work.arrived_s for work in engine.finished] == pytest.approx([1.0, 0.5])
    assert engine.counters.cached_tokens == 500


def test_a_dark_region_loses_both_stages() -> None:
    engine = StagedEngine(SPEC, 1, 1)
    for number in range(12):
        engine.submit(make_work(number, prompt=400), 0.0)
    engine.advance(1.0)
    assert len(engine.fail_all(1.0)) == 12
    engine.advance(60.0)
    assert (engine.running, engine.waiting, engine.finished) == (0, 0, [])


def test_half_of_the_replicas_are_half_of_each_stage() -> None:
    engine = StagedEngine(SPEC, 4, 8)
    engine.set_replicas(6, 0.0)
    assert (engine.prefill.replicas, engine.decode.replicas, engine.replicas) == (2, 4, 6)
    engine.set_replicas(0, 1.0)
    assert engine.replicas == 0


@given(st.integers(0, 2**32), st.floats(0.1, 1.5), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_work_is_conserved(seed: int, load: float, prefill: int, decode: int) -> None:
    """Invariant: every request is in one stage or finished, and counters say what became of it, preempted or not."""
    random = Random(seed)
    spec = EngineSpec(StepTime(5, 20), max_running=16, prefill_tokens_per_s=20_000, kv_tokens=4_000)
    engine = StagedEngine(spec, prefill, decode)
    rate = load * sustained_requests_per_s(spec, Deployment("gpu", decode, prefill), 200, 50)
    at_s, sent = 0.0, 0
    while at_s < 20.0:
        at_s += random.expovariate(rate)
        prompt, generated = float(random.randint(1, 400)), float(random.randint(1, 100))
        engine.submit(make_work(sent, prompt, generated), at_s)
        sent += 1
        inside = engine.running + engine.waiting + engine.prefill.running
        assert inside + len(engine.finished) == sent
    engine.advance(at_s + 3600.0)
    assert sorted(work.number for work in engine.finished) == list(range(sent))
    assert (engine.counters.arrived, engine.counters.completed) == (sent, sent)
    for work in engine.finished:
        assert work.arrived_s <= work.first_token_s <= work.done_s


@pytest.mark.parametrize(("prefill", "decode"), [(1, 8), (8, 1)])
def test_nominal_capacity_is_what_the_worse_stage_reaches(prefill: int, decode: int) -> None:
    """Kept full, the engine completes what the formula says, within 3 %, whichever stage is short."""
    spec = EngineSpec(StepTime(20, 60), max_running=32, prefill_tokens_per_s=5_000, kv_tokens=1e9)
    engine = StagedEngine(spec, prefill, decode)
    expected = sustained_requests_per_s(spec, Deployment("gpu", decode, prefill), 500, 100)
    assert completed_per_s(engine, 0.02) == pytest.approx(expected, rel=0.03)
