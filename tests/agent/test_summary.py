"""What a region's replicas say, added up without inventing anything."""

from __future__ import annotations

import pytest

from director.agent.summary import DeploymentMemory, describe, summarise
from tests.agent.dumps import deployment, epp_dump, parse, summary, vllm_dump, voice


def test_totals_over_replicas() -> None:
    """Loads add up; KV use is the mean by KV size, and its greatest."""
    config = deployment()
    small = voice(config, vllm_dump(running=(4,), waiting=(1,), kv=(0.9,), blocks=1_000), name="http://a")
    large = voice(config, vllm_dump(running=(2,), waiting=(0,), kv=(0.1,), blocks=3_000), name="http://b")
    report = summary(config, small, large).report
    assert (report.running, report.waiting, report.max_running) == (6.0, 1.0, 16.0)
    assert report.kv_usage == pytest.approx((0.9 * 1 + 0.1 * 3) / 4)
    assert (report.kv_usage_max, report.kv_tokens) == (0.9, 64_000.0)


def test_a_replica_that_does_not_answer_is_not_ready_and_is_said() -> None:
    """Ready, total and scraped tell the difference."""
    config = deployment()
    well, gone = voice(config, vllm_dump(), name="http://a"), voice(config, vllm_dump(), name="http://b")
    gone.fail("refused the connection", certain=True)
    result = summary(config, well, gone)
    assert (result.report.replicas.ready, result.report.replicas.total) == (1, 2)
    assert result.report.scraped is not None
    assert (result.report.scraped.answered, result.report.scraped.of) == (1, 2)
    assert result.problems == ("http://b: refused the connection",)


def test_one_scrape_that_times_out_is_noise_and_two_are_not() -> None:
    """A busy engine's late answer must not move a region's capacity."""
    config = deployment()
    heard = voice(config, vllm_dump())
    heard.fail("did not answer within 2 s", certain=False)
    assert heard.reading is not None
    heard.fail("did not answer within 2 s", certain=False)
    assert heard.reading is None


def test_a_missing_signal_is_unknown_and_named_not_zero() -> None:
    """One replica does not say what waits: the sum is unknown, not the others' sum."""
    config = deployment()
    silent = 'vllm:num_requests_running{model_name="m"} 2\nvllm:kv_cache_usage_perc{model_name="m"} 0.5\n'
    result = summary(config, voice(config, vllm_dump(), name="http://a"), voice(config, silent, name="http://b"))
    assert result.report.waiting is None
    assert result.report.running == 5.0
    assert "http://b: does not say waiting" in result.problems


def test_arrivals_are_what_ended_and_what_is_more_in_flight() -> None:
    """Ten ended in five seconds and ten more are running: four arrived each second."""
    config = deployment()
    before = vllm_dump(running=(5,), stops=100, prompt=100_000, generation=20_000)
    after = vllm_dump(running=(15,), stops=110, prompt=110_000, generation=22_000)
    report = summary(config, voice(config, before, after)).report
    assert report.arrived is not None
    assert report.completed is not None
    assert report.completed.requests_per_s == pytest.approx(2.0)
    assert report.arrived.requests_per_s == pytest.approx(4.0)
    assert report.arrived.tokens_per_s == pytest.approx(4.0 * 1_200)


def sglang_dump(running: float, finished: float, throughput: float) -> str:
    return (
        f'sglang:num_running_reqs{{model_name="m",tp_rank="0"}} {running}\n'
        f'sglang:num_queue_reqs{{model_name="m",tp_rank="0"}} 0\nsglang:token_usage{{model_name="m",tp_rank="0"}} 0.1\n'
        f'sglang:gen_throughput{{model_name="m",tp_rank="0"}} {throughput}\n'
        f'sglang:num_requests_total{{model_name="m"}} {finished}\n'
        f'sglang:prompt_tokens_total{{model_name="m"}} {finished * 1_000}\n'
        f'sglang:generation_tokens_total{{model_name="m"}} {finished * 200}\n'
    )


def test_an_engine_that_fills_does_not_look_slow_because_it_counts_finished_requests_only() -> None:
    """Nothing is finished yet: tokens are unknown, not 0. Later its own throughput counts, and prompts of what grew."""
    config = deployment()
    filling = voice(config, sglang_dump(0, 0, 0), sglang_dump(4, 0, 300))
    completed = summary(config, filling).report.completed
    assert completed is not None
    assert (completed.prompt_tokens_per_s, completed.generation_tokens_per_s) == (None, None)
    filling.observe(parse(sglang_dump(8, 5, 600)), 110.0)
    completed = summary(config, filling, at_s=110.0).report.completed
    assert completed is not None
    assert completed.prompt_tokens_per_s == pytest.approx((5 * 1_000 + 8 * 1_000) / 10)
    assert completed.generation_tokens_per_s == pytest.approx((0 + 300 + 600) / 3)


def test_an_idle_engines_last_throughput_does_not_stay() -> None:
    """The gauge keeps its value when nothing runs any more."""
    config = deployment()
    report = summary(config, voice(config, sglang_dump(0, 9, 500), sglang_dump(0, 9, 500))).report
    assert report.completed is not None
    assert report.completed.generation_tokens_per_s == 0.0


def test_a_picker_beside_replicas_counts_arrivals_and_leaves_load_to_them() -> None:
    """Its averages are seconds old; its counter of requests is exact."""
    config = deployment()
    replica = voice(config, vllm_dump(stops=100), vllm_dump(stops=110))
    picker = voice(config, epp_dump(running=99), epp_dump(running=99).replace(" 100\n", " 150\n"), epp="http://epp")
    report = summary(config, replica, picker).report
    assert report.running == 3.0
    assert report.arrived is not None
    assert report.arrived.requests_per_s == pytest.approx(10.0)


def test_ttft_quantiles_come_from_summed_buckets() -> None:
    """Nine fast replicas' worth of quick first tokens and one slow one: not the mean of two medians."""
    config = deployment()
    none = (("0.1", 0), ("0.5", 0), ("1.0", 0), ("+Inf", 0))
    quick = (("0.1", 90), ("0.5", 90), ("1.0", 90), ("+Inf", 90))
    slow = (("0.1", 0), ("0.5", 0), ("1.0", 10), ("+Inf", 10))
    a = voice(config, vllm_dump(ttft=none), vllm_dump(ttft=quick), name="http://a")
    b = voice(config, vllm_dump(ttft=none), vllm_dump(ttft=slow), name="http://b")
    ttft = summary(config, a, b).report.ttft_ms
    assert ttft is not None
    assert ttft.p50 == pytest.approx(100 * 50 / 90)
    assert ttft.p95 == pytest.approx(750)


def test_prefill_and_decode_are_reported_apart_and_both_are_needed() -> None:
    """A deployment without a ready prefill stage serves nothing, however idle its decoders."""
    config = deployment()
    prefill = voice(config, vllm_dump(running=(7,), waiting=(3,)), static=("http://p",), stage="prefill")
    decode = voice(config, vllm_dump(running=(4,)), name="http://d", static=("http://d",), stage="decode")
    report = summary(config, prefill, decode).report
    assert report.stages is not None
    assert (report.stages.prefill.running, report.stages.decode.running) == (7.0, 4.0)
    assert (report.running, report.waiting, report.replicas.ready) == (4.0, 3.0, 2)
    prefill.fail("gone", certain=True)
    assert summary(config, prefill, decode).report.replicas.ready == 0


def test_capacity_is_configured_for_ready_replicas_or_learnt_when_they_are_full() -> None:
    """Half-empty engines may lower an estimate and never raise it; which of the two it is, is said."""
    config = deployment(replica_capacity_tokens_per_s=1_000.0)
    report = summary(config, voice(config, vllm_dump())).report
    assert (report.capacity_tokens_per_s, report.capacity_source) == (1_000.0, "configured")

    config, memory = deployment(), DeploymentMemory()
    heard = voice(config, vllm_dump(running=(2,)), vllm_dump(running=(2,), stops=60, prompt=60_000, generation=6_000))
    assert summarise(config, [heard], memory, 105.0).report.capacity_tokens_per_s is None
    heard.observe(parse(vllm_dump(running=(8,), stops=70, prompt=70_000, generation=7_000)), 110.0)
    learnt = summarise(config, [heard], memory, 110.0).report
    assert learnt.capacity_source == "estimated"
    assert learnt.capacity_tokens_per_s == pytest.approx((69_000 + 6_800) / 10)


def test_every_figure_says_where_it_came_from() -> None:
    """What `--once --print` shows."""
    config = deployment()
    rows = {name: origin for name, _, origin in describe(summary(config, voice(config, vllm_dump(), vllm_dump())))}
    assert rows["running"] == "vllm:num_requests_running"
    assert rows["max_running"] == "replica_max_running × 1 ready"
    assert "vllm:kv_cache_usage_perc" in rows["kv_usage"]
    assert "finished" in rows["completed"] or "prompt_tokens" in rows["completed"]
