"""The simulated engine behaves like a batching engine: nothing is lost, more together is faster, places are limited."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from director.agent.engines import WANTED, epp, read_engine
from director.agent.exposition import ExpositionParser
from director.demo.dumps import Dialect, PickerDialect, PoolFigures, engine_dump, picker_dump
from director.demo.engine import BatchingEngine, EngineSpeed, Job

SMALL = EngineSpeed(max_running=4, kv_tokens=8_000, waiting_max=1_000)


def throughput_tokens_per_s(kept_running: int) -> float:
    """What the engine generates while it is kept at so many requests."""
    engine, now_s, spawned = BatchingEngine(EngineSpeed(), 0.0), 0.0, 0
    while now_s < 60.0:
        while len(engine.running) + len(engine.waiting) < kept_running:
            spawned += 1
            engine.submit(Job(100, 200 + spawned % 7, lambda _served: None), now_s)
        now_s += 0.1
        engine.advance(now_s)
    return engine.counters.generated_tokens / now_s


jobs = st.lists(st.tuples(st.integers(1, 3_000), st.integers(1, 400), st.floats(0, 5)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=50)
@given(jobs, st.floats(0.02, 1.0))
def test_every_request_ends_once_and_limits_hold_throughout(life: list[tuple[int, int, float]], tick_s: float) -> None:
    """Whatever comes when, and however coarse the ticks: places and KV blocks are never overcommitted."""
    engine, ended, now_s = BatchingEngine(SMALL, 0.0), [0] * len(life), 0.0

    def finish(i: int) -> object:
        return lambda served: ended.__setitem__(i, ended[i] + (1 if served else 100))

    waiting = sorted((arrives_s, i) for i, (_, _, arrives_s) in enumerate(life))
    while waiting or not engine.idle:
        while waiting and waiting[0][0] <= now_s:
            _, i = waiting.pop(0)
            assert engine.submit(Job(life[i][0], life[i][1], finish(i)), now_s)  # type: ignore[arg-type]
        now_s += tick_s
        engine.advance(now_s)
        assert len(engine.running) <= SMALL.max_running
        assert sum(job.kv_tokens for job in engine.running) <= SMALL.kv_tokens + 1
        assert now_s < 3_600
    assert ended == [1] * len(life)
    assert engine.counters.finished_prompt_tokens == sum(prompt for prompt, _, _ in life)
    assert engine.counters.generated_tokens == pytest.approx(sum(generate for _, generate, _ in life))
    assert sum(engine.counters.ttft_buckets) == len(life)


def test_more_requests_together_are_faster_in_sum_and_slower_each() -> None:
    """Half-empty engines look fast per request: what a capacity estimate must not believe."""
    few, many = throughput_tokens_per_s(4), throughput_tokens_per_s(32)
    assert many > 2 * few
    assert many / 32 < 0.8 * few / 4


def test_a_full_queue_refuses_and_a_dead_engine_fails_what_it_held() -> None:
    """The server answers 503; requests in flight are lost with the process."""
    engine = BatchingEngine(EngineSpeed(max_running=1, waiting_max=2), 0.0)
    ends: list[bool] = []
    for _ in range(3):
        assert engine.submit(Job(10, 10, ends.append), 0.0)
    assert not engine.submit(Job(10, 10, ends.append), 0.0)
    engine.fail_all()
    assert ends == [False, False, False]
    assert engine.idle


def test_a_client_that_leaves_frees_its_place() -> None:
    """And is counted as its own doing."""
    engine = BatchingEngine(EngineSpeed(max_running=1), 0.0)
    leaves, stays = Job(10, 1_000, lambda _served: None), Job(10, 10, lambda _served: None)
    engine.submit(leaves, 0.0)
    engine.submit(stays, 0.0)
    engine.abort(leaves)
    engine.advance(0.1)
    assert engine.running == [stays]
    assert engine.counters.aborted == 1


def busy_engine() -> BatchingEngine:
    engine = BatchingEngine(EngineSpeed(max_running=3), 0.0, born_at_s=1.0)
    for i in range(5):
        engine.submit(Job(100, 5 + 50 * i, lambda _served: None, adapter="acme" if i == 3 else None), 0.0)
    for tick in range(1, 11):
        engine.advance(tick / 10)
    return engine


@pytest.mark.parametrize("dialect", ["vllm", "vllm-old", "sglang"])
def test_the_agents_reader_hears_from_each_dialect_what_the_engine_is_doing(dialect: Dialect) -> None:
    """Old names, twins and repeated ranks included."""
    engine = busy_engine()
    dump = ExpositionParser(WANTED).parse(engine_dump(engine, dialect, "org/model"))
    name, readings = read_engine(dump, None)
    assert name == dialect.removesuffix("-old")
    reading = readings[0]
    assert (reading.running, reading.waiting) == (float(len(engine.running)), float(len(engine.waiting)))
    assert reading.kv_usage == pytest.approx(engine.kv_usage)
    assert reading.kv_tokens == engine.speed.kv_tokens
    assert reading.counters["requests_completed"] == engine.counters.finished > 0
    assert reading.counters["finished_prompt_tokens"] == 100 * engine.counters.finished
    assert reading.ttft_buckets is not None
    assert reading.ttft_buckets[-1][1] == sum(engine.counters.ttft_buckets)
    if dialect != "sglang":
        assert reading.adapters_running == ("acme",)


@pytest.mark.parametrize("dialect", ["llm-d", "inference-extension"])
def test_the_agents_reader_hears_from_each_picker_what_its_pool_is_doing(dialect: PickerDialect) -> None:
    """Means times endpoints are the pool's; errors by code."""
    engines = [busy_engine(), busy_engine()]
    figures = PoolFigures("m-1", "m")
    figures.requests = 12
    figures.failed("ResourceExhausted")
    dump = ExpositionParser(WANTED).parse(picker_dump({"m-1": (figures, engines)}, dialect, 1.0))
    reading = epp.read(dump, "m-1", ("m-1",))[0]
    assert reading.ready == 2
    assert reading.running == pytest.approx(sum(len(e.running) for e in engines))
    assert reading.counters["requests_arrived"] == 12
    assert reading.counters["errors_throttled"] == 1
