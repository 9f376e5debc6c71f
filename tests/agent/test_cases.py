"""Faults of the field in what engines and pickers expose, and the right behaviour: M1 to M6 and their kinds."""

from __future__ import annotations

import pytest

from tests.agent.dumps import MODEL, deployment, epp_dump, parse, summary, vllm_dump, voice

OLD, NEW = "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"


@pytest.mark.parametrize("names", [(NEW,), (OLD,), (NEW, OLD), (OLD, NEW)])
def test_m1_kv_use_is_the_same_under_its_new_name_its_old_one_and_both(names: tuple[str, ...]) -> None:
    """Old and new names are twins: one is taken, they are never added and never read as 0."""
    config = deployment(engine="vllm")
    report = summary(config, voice(config, vllm_dump(kv=(0.61,), kv_names=names))).report
    assert report.kv_usage == pytest.approx(0.61)
    assert report.kv_usage_max == pytest.approx(0.61)


@pytest.mark.parametrize(
    "prefixes",
    [
        ("llm_d_epp_",),
        ("inference_pool_",),
        ("llm_d_router_epp_",),
        ("llm_d_inference_scheduler_",),
        ("inference_pool_", "llm_d_router_epp_", "llm_d_epp_"),
    ],
)
def test_m1_a_picker_with_several_prefixes_is_counted_once(prefixes: tuple[str, ...]) -> None:
    """Three prefixes at once say what one says."""
    config = deployment(replica_max_running=16.0)
    heard = voice(config, epp_dump(ready=4, running=2, queue=0.5, kv=0.3, prefixes=prefixes), epp="http://epp")
    report = summary(config, heard).report
    assert (report.running, report.waiting, report.kv_usage) == (8.0, 2.0, pytest.approx(0.3))
    assert (report.replicas.ready, report.max_running) == (4, 64.0)


def test_m1_an_unmeasured_gauge_gives_way_to_its_twin() -> None:
    """A new name that holds −1, as old releases write before the first measurement, does not hide the old one."""
    text = vllm_dump(kv=(-1.0,), kv_names=(NEW,)) + f'{OLD}{{model_name="{MODEL}"}} 0.4\n'
    config = deployment()
    assert summary(config, voice(config, text)).report.kv_usage == pytest.approx(0.4)


def lora(value: float, running: str, waiting: str = "", most: int = 4) -> str:
    return (
        f'vllm:lora_requests_info{{max_lora="{most}",running_lora_adapters="{running}",'
        f'waiting_lora_adapters="{waiting}"}} {value}\n'
    )


def test_m2_of_several_adapter_series_the_newest_by_value_wins() -> None:
    """The value is the time a series was set; the others are history."""
    config = deployment()
    text = vllm_dump(extra=lora(1700, "old-a") + lora(1900, "acme-v3,beta-v1") + lora(1800, "old-b"))
    assert summary(config, voice(config, text)).report.adapters.loaded == ("acme-v3", "beta-v1")


def test_m2_an_empty_adapter_list_is_none() -> None:
    """An empty label is no adapter, and certainly not one whose name is empty."""
    config = deployment()
    text = vllm_dump(extra=lora(1700, "old-a") + lora(1900, ""))
    assert summary(config, voice(config, text)).report.adapters.loaded == ()


def test_m3_counts_add_up_over_engines_and_kv_use_is_the_fullest_ones() -> None:
    """Engine 0 waits 3 and engine 1 waits 4; KV 0.2 and 0.9."""
    config = deployment()
    text = vllm_dump(running=(5, 6), waiting=(3, 4), kv=(0.2, 0.9))
    report = summary(config, voice(config, text)).report
    assert (report.running, report.waiting, report.kv_usage_max) == (11.0, 7.0, 0.9)


def test_m4_a_counter_that_falls_gives_no_negative_rate_and_no_burst() -> None:
    """1000 requests, then 12 after a restart: 12 in the interval, errors no more than requests."""
    config = deployment()
    before = vllm_dump(stops=1000, errors=3, prompt=1e6, generation=2e5)
    after = vllm_dump(stops=12, errors=4, prompt=12_000, generation=2_400)
    report = summary(config, voice(config, before, after)).report
    assert report.completed is not None
    assert report.completed.requests_per_s == pytest.approx(12 / 5)
    assert report.completed.prompt_tokens_per_s == pytest.approx(12_000 / 5)
    assert report.errors_per_s is not None
    assert 0 <= report.errors_per_s.server <= 4 / 5
    assert report.arrived is not None
    assert report.arrived.requests_per_s is not None
    assert report.arrived.requests_per_s >= 0


def test_m4_a_pod_seen_for_the_first_time_has_no_rate() -> None:
    """Its counters may be a month old: one scrape says how many, not how fast."""
    config = deployment()
    report = summary(config, voice(config, vllm_dump(stops=10_000))).report
    assert report.completed is None
    assert report.arrived is None


def test_m5_averages_frozen_at_their_last_value_do_not_count_without_ready_endpoints() -> None:
    """A pool scaled to zero has capacity 0, whatever its means still say."""
    config = deployment()
    report = summary(config, voice(config, epp_dump(ready=0, kv=0.3), epp="http://epp")).report
    assert report.replicas.ready == 0
    assert report.capacity_tokens_per_s == 0.0
    assert (report.running, report.waiting, report.kv_usage) == (None, None, None)


def test_m6_an_adapter_that_is_registered_and_not_loaded_is_loadable() -> None:
    """Waited for, or promised by the configuration: loadable. Running: loaded, and not listed twice."""
    config = deployment(adapters=_adapters(loadable=("acme-legal-v1", "acme-support-v3")))
    text = vllm_dump(extra=lora(1900, "acme-support-v3", waiting="beta-v1"))
    adapters = summary(config, voice(config, text)).report.adapters
    assert adapters.loaded == ("acme-support-v3",)
    assert adapters.loadable == ("acme-legal-v1", "beta-v1")


def test_an_adapter_without_a_request_this_moment_stays_loaded() -> None:
    """Engines name adapters of running requests only: a quiet tenant's must not come and go with each request."""
    from director.agent.summary import DeploymentMemory, summarise

    config, memory = deployment(), DeploymentMemory()
    heard = voice(config, vllm_dump(extra=lora(1900, "acme-v3")))
    summarise(config, [heard], memory, 100.0)
    heard.observe(parse(vllm_dump(extra=lora(1905, ""))), 105.0)
    assert summarise(config, [heard], memory, 105.0).report.adapters.loaded == ("acme-v3",)
    heard.observe(parse(vllm_dump(extra=lora(3000, ""))), 1000.0)
    assert summarise(config, [heard], memory, 1000.0).report.adapters.loaded == ()


def _adapters(loaded: tuple[str, ...] = (), loadable: tuple[str, ...] = ()) -> object:
    from director.agent.config import ConfiguredAdapters

    return ConfiguredAdapters(loaded=loaded, loadable=loadable)
