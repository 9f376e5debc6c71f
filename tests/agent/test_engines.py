"""Each engine and picker says its load in its own words; the readers hear the same thing."""

from __future__ import annotations

import pytest

from director.agent.engines import read_engine
from director.agent.exposition import NotUnderstood
from director.agent.reading import Reading
from director.agent.voice import PROBLEM_CHARACTERS_MAX
from director.core.report import Errors
from tests.agent.dumps import deployment, epp_dump, parse, summary, vllm_dump, voice


def only(text: str, engine: str | None = None) -> Reading:
    _, readings = read_engine(parse(text), engine)
    assert len(readings) == 1
    return readings[0]


SGLANG = """
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 4.0
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="1"} 4.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 3.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="1"} 3.0
sglang:token_usage{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.28
sglang:max_total_num_tokens{model_name="m",tp_rank="0"} 160000
sglang:max_total_num_tokens{model_name="m",tp_rank="1"} 160000
sglang:prompt_tokens_total{model_name="m"} 8128
sglang:generation_tokens_total{model_name="m"} 7557
sglang:num_requests_total{model_name="m"} 12
"""


def test_sglang_ranks_repeat_one_engines_load() -> None:
    """Rank 0 speaks; the others are not added."""
    reading = only(SGLANG)
    assert (reading.running, reading.waiting, reading.kv_usage, reading.kv_tokens) == (4.0, 3.0, 0.28, 160_000.0)
    assert reading.counters["finished_prompt_tokens"] == 8128


def test_sglang_data_parallel_engines_add_up() -> None:
    """dp ranks carry loads of their own."""
    text = "".join(
        f'sglang:num_running_reqs{{dp_rank="{dp}",model_name="m",tp_rank="{tp}"}} {dp + 1}\n'
        for dp in range(2)
        for tp in range(2)
    )
    assert only(text).running == 3.0


def test_sglang_priorities_are_parts_of_a_whole() -> None:
    """With priority scheduling a gauge comes as a whole and again in parts."""
    text = (
        'sglang:num_running_reqs{priority="",tp_rank="0"} 14.0\n'
        'sglang:num_running_reqs{priority="-1",tp_rank="0"} 4.0\n'
        'sglang:num_running_reqs{priority="0",tp_rank="0"} 10.0\n'
    )
    assert only(text).running == 14.0


def test_sglang_newest_kv_name_wins_over_its_twin() -> None:
    """The newest source has kv_cache_usage_perc beside token_usage."""
    text = SGLANG + 'sglang:kv_cache_usage_perc{model_name="m",tp_rank="0"} 0.29\n'
    assert only(text).kv_usage == 0.29


def test_sglang_page_counts_give_the_kv_size() -> None:
    """Where the token count is missing, pages × page size."""
    text = (
        'sglang:num_running_reqs{model_name="m"} 1\n'
        'sglang:cache_config_info{page_size="64",num_pages="1000",model_name="m"} 1\n'
    )
    assert only(text).kv_tokens == 64_000


def test_vllm_parts_of_waiting_are_not_added_and_created_twins_are_no_counters() -> None:
    """num_requests_waiting_by_reason and *_created stand in every dump."""
    reading = only(vllm_dump(waiting=(5,), prompt=1_000))
    assert reading.waiting == 5.0
    assert reading.counters["prompt_tokens"] == 1_000
    assert reading.kv_tokens == 16_000


def http(handler: str, status: str, count: float, method: str = "POST") -> str:
    return f'http_requests_total{{handler="{handler}",method="{method}",status="{status}"}} {count}\n'


def test_vllm_counts_http_errors_by_whose_doing_and_of_inference_only() -> None:
    """Grouped or exact statuses; probes and scrapes of the server are no requests."""
    reading = only(
        vllm_dump(
            extra=http("/v1/completions", "2xx", 50)
            + http("/v1/completions", "4xx", 500)
            + http("/v1/chat/completions", "5xx", 3)
            + http("/v1/chat/completions", "429", 7)
            + http("/v1/chat/completions", "504", 2)
            + http("/health", "5xx", 90, "GET")
            + http("/v1/models", "4xx", 90, "GET")
        )
    )
    found = {name: value for name, value in reading.counters.items() if name.startswith("http_")}
    assert found == {
        "http_errors_server": 3.0,
        "http_errors_timeout": 2.0,
        "http_errors_throttled": 7.0,
        "http_errors_client": 500.0,
    }


def test_d9_malformed_requests_are_the_clients_and_no_arrivals() -> None:
    """Five hundred refused before the engine took them: no server error, and no token of demand."""
    before = http("/v1/completions", "2xx", 0) + http("/v1/completions", "4xx", 0)
    after = http("/v1/completions", "2xx", 10) + http("/v1/completions", "4xx", 500)
    config = deployment(engine="vllm")
    heard = voice(config, vllm_dump(stops=10, extra=before), vllm_dump(stops=20, prompt=2_000, extra=after))
    report = summary(config, heard).report
    assert report.errors_per_s == Errors(client=100.0)
    assert report.arrived is not None
    assert report.arrived.requests_per_s == 2.0


def test_vllm_failures_seen_by_engine_and_http_server_are_not_added_up() -> None:
    """A request that the engine failed is a 5xx too: the greater count is taken, once."""
    zero, config = http("/v1/completions", "5xx", 0), deployment(engine="vllm")
    heard = voice(
        config, vllm_dump(extra=zero), vllm_dump(errors=10, stops=20, extra=http("/v1/completions", "5xx", 15))
    )
    result = summary(config, heard)
    assert result.report.errors_per_s == Errors(server=3.0)
    assert "HTTP status" in result.origins["errors_per_s"]


def test_vllm_asleep_serves_nothing() -> None:
    """An engine asleep answers /metrics; its replica is not ready."""
    sleep = (
        'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0\n'
        'vllm:engine_sleep_state{engine="0",sleep_state="weights_offloaded"} 1.0\n'
    )
    config = deployment()
    report = summary(config, voice(config, vllm_dump(extra=sleep))).report
    assert (report.state, report.replicas.ready, report.replicas.total) == ("asleep", 0, 1)
    awake = vllm_dump(extra='vllm:engine_sleep_state{engine="0",sleep_state="awake"} 1.0\n')
    assert summary(config, voice(config, awake)).report.state == "serving"


def test_vllm_before_engine_labels_and_with_untotalled_counters() -> None:
    """The oldest releases have neither an engine label nor _total."""
    text = 'vllm:num_requests_running{model_name="m"} 2\nvllm:prompt_tokens{model_name="m"} 7\n'
    reading = only(text)
    assert (reading.running, reading.counters["prompt_tokens"]) == (2.0, 7.0)


def test_ray_adds_what_waits_in_handles_and_takes_one_of_each_counters_twins() -> None:
    """Ray writes _ for : and each counter with and without _total; two replicas share a dump."""
    text = "".join(
        f'ray_vllm_num_requests_running{{model_name="m",ReplicaId="{r}"}} 3\n'
        f'ray_vllm_num_requests_waiting{{model_name="m",ReplicaId="{r}"}} 1\n'
        f'ray_vllm_prompt_tokens_total{{model_name="m",ReplicaId="{r}"}} 50\n'
        f'ray_vllm_prompt_tokens{{model_name="m",ReplicaId="{r}"}} 50\n'
        for r in ("a", "b")
    )
    reading = only(text + 'ray_serve_deployment_queued_queries{deployment="llm"} 5\n')
    assert (reading.running, reading.waiting, reading.ready) == (6.0, 7.0, 2)
    assert reading.counters["prompt_tokens"] == 100


def test_ray_workers_that_leave_and_join_give_no_burst() -> None:
    """A node's exporter gathers its workers: one that leaves takes its counts away, not all counts to zero."""

    def node(**prompt: float) -> str:
        return "".join(
            f'ray_vllm_num_requests_running{{model_name="m",WorkerId="{worker}"}} 3\n'
            f'ray_vllm_prompt_tokens_total{{model_name="m",WorkerId="{worker}"}} {tokens}\n'
            f'ray_vllm_request_success_total{{model_name="m",finished_reason="stop",WorkerId="{worker}"}} {tokens}\n'
            for worker, tokens in prompt.items()
        )

    heard = voice(deployment(), node(a=1e6, b=1e6), node(a=1e6 + 5), node(a=1e6 + 10, c=7e5))
    rates = heard.history.rates()
    assert rates is not None
    assert rates.per_s == pytest.approx({"prompt_tokens": 1.0, "requests_completed": 1.0})


@pytest.mark.parametrize("unmeasured", ["NaN", "+Inf", "-1.0"])
def test_a_figure_of_which_a_part_is_unmeasured_is_unknown(unmeasured: str) -> None:
    """One rank that does not say is not one that runs nothing."""
    broken = vllm_dump(running=(3, 4), waiting=(2, float(unmeasured)))
    config = deployment()
    heard = voice(config, broken)
    assert summary(config, heard).report.waiting is None
    assert heard.problem == "does not say waiting"


def test_trtllm_serve() -> None:
    """Under its own prefix, KV size by blocks."""
    text = (
        "trtllm_num_requests_running 4\ntrtllm_num_requests_waiting 1\ntrtllm_kv_cache_utilization 0.5\n"
        "trtllm_kv_cache_tokens_per_block 32\ntrtllm_kv_cache_max_blocks 1000\n"
        'trtllm_request_success_total{model_name="m",finished_reason="stop"} 150\n'
    )
    reading = only(text)
    assert (reading.running, reading.waiting, reading.kv_usage, reading.kv_tokens) == (4.0, 1.0, 0.5, 32_000.0)
    assert reading.counters["requests_completed"] == 150


def test_triton_splits_one_family_by_type_and_counts_its_own_model_only() -> None:
    """The ensemble around the engine counts each request again."""
    text = (
        "".join(
            f'nv_trt_llm_request_metrics{{model="tensorrt_llm",request_type="{kind}",version="1"}} {value}\n'
            for kind, value in (("waiting", 2), ("scheduled", 5), ("active", 7), ("max", 64))
        )
        + "".join(
            f'nv_trt_llm_kv_cache_block_metrics{{kv_cache_block_type="{kind}",model="tensorrt_llm"}} {value}\n'
            for kind, value in (("fraction", 0.25), ("tokens_per", 64), ("max", 100), ("used", 25))
        )
        + 'nv_inference_request_success{model="tensorrt_llm"} 9\nnv_inference_request_success{model="ensemble"} 9\n'
    )
    reading = only(text + 'nv_inference_request_failure{model="tensorrt_llm",reason="REJECTED"} 3\n')
    assert (reading.running, reading.waiting, reading.kv_usage) == (5.0, 2.0, 0.25)
    assert (reading.max_running, reading.kv_tokens) == (64.0, 6_400.0)
    assert reading.counters == {"requests_completed": 9.0, "errors_throttled": 3.0}


def test_dynamo_frontend_speaks_for_its_workers_and_a_worker_for_its_cache() -> None:
    """Queued includes prefill; the worker's percent runs from 0 to 1."""
    config = deployment(engine="dynamo", replica_max_running=None)
    frontend = voice(
        config,
        'dynamo_frontend_inflight_requests{model="m"} 12\ndynamo_frontend_queued_requests{model="m"} 4\n'
        'dynamo_frontend_model_workers{model="m"} 3\ndynamo_frontend_model_max_num_seqs{model="m"} 256\n',
    )
    worker = voice(config, 'dynamo_component_kvstats_gpu_cache_usage_percent{model="m"} 0.7\n', name="http://w1")
    report = summary(config, frontend, worker).report
    assert (report.running, report.waiting, report.max_running) == (8.0, 4.0, 768.0)
    assert (report.replicas.ready, report.kv_usage) == (3, 0.7)


def test_a_picker_counts_backpressure_as_throttled_and_client_errors_as_the_clients() -> None:
    """error_code tells whose fault it was; ResourceExhausted is no failure."""
    error = 'llm_d_epp_request_error_total{error_code="%s",model_name="m",target_model_name="t"} %d\n'
    before = epp_dump() + "".join(error % (code, 0) for code in ("ResourceExhausted", "BadRequest", "Internal"))
    after = epp_dump() + error % ("ResourceExhausted", 10) + error % ("BadRequest", 20) + error % ("Internal", 5)
    config = deployment()
    errors = summary(config, voice(config, before, after, epp="http://epp")).report.errors_per_s
    assert errors is not None
    assert (errors.throttled, errors.client, errors.server) == (2.0, 4.0, 1.0)


def test_a_picker_of_several_pools_must_be_told_which() -> None:
    """Two pools' figures are never taken for one's."""
    text = 'llm_d_epp_ready_endpoints{name="p1"} 1\nllm_d_epp_ready_endpoints{name="p2"} 9\n'
    config = deployment()
    heard = voice(config, text, epp="http://epp")
    assert heard.reading is None
    assert "p1, p2" in (heard.problem or "")
    chosen = voice(config, text, epp="http://epp", pool="p2")
    assert summary(config, chosen).report.replicas.ready == 9
    missing = voice(config, text, epp="http://epp", pool="p3")
    assert missing.reading is None


def test_a_picker_that_does_not_count_its_endpoints_is_said_to() -> None:
    """Its pool counts as none ready, and the operator reads why."""
    heard = voice(deployment(), 'inference_pool_average_running_requests{name="p1"} 0.5\n', epp="http://epp")
    result = summary(deployment(), heard)
    assert result.report.replicas.ready == 0
    assert any("how many endpoints are ready" in problem for problem in result.problems)


def test_a_picker_that_lacks_a_signal_is_said_to() -> None:
    """As a replica is; and not where no endpoint is ready, when there is none to tell."""
    text = 'llm_d_epp_ready_endpoints{name="p1"} %d\nllm_d_epp_average_running_requests{name="p1"} 0.5\n'
    assert voice(deployment(), text % 2, epp="http://epp").problem == "does not say waiting, kv_usage"
    assert voice(deployment(), text % 0, epp="http://epp").problem is None


def test_a_problem_quotes_a_target_at_no_more_than_some_length() -> None:
    """Two models of which one has a name of a megabyte: it goes to the log with each change."""
    names = ("a", "x" * 1_000_000)
    heard = voice(deployment(), "".join(f'vllm:num_requests_running{{model_name="{name}"}} 1\n' for name in names))
    assert heard.reading is None
    assert (heard.problem or "").startswith("serves several models (a, xxx")
    assert len(heard.problem or "") <= PROBLEM_CHARACTERS_MAX + 1


def test_a_dump_nobody_understands_is_named_and_never_idle() -> None:
    """A node exporter on the wrong port is not an idle engine."""
    config = deployment()
    result = summary(config, voice(config, "node_cpu_seconds_total 5\n", name="http://r9/metrics"))
    assert result.report.replicas.ready == 0
    assert result.report.scraped is not None
    assert (result.report.scraped.answered, result.report.scraped.of) == (0, 1)
    assert any("http://r9/metrics" in problem and "1 samples" in problem for problem in result.problems)


def test_an_engine_of_the_wrong_kind_is_refused_where_one_is_configured() -> None:
    """`engine: vllm` does not take SGLang's figures."""
    with pytest.raises(NotUnderstood, match="vllm's"):
        read_engine(parse(SGLANG), "vllm")


def test_a_target_of_several_models_must_be_told_which() -> None:
    """And one that serves another model is no replica of this one."""
    two = 'vllm:num_requests_running{model_name="a"} 1\nvllm:num_requests_running{model_name="b"} 2\n'
    assert voice(deployment(), two).reading is None
    chosen = voice(deployment(served_as=("b",)), two)
    assert chosen.reading is not None
    assert chosen.reading.running == 2.0
    other = voice(deployment(served_as=("c",)), two)
    assert "serves a, b, not c" in (other.problem or "")
