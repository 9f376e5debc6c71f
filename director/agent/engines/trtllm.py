"""trtllm-serve: Prometheus text at /prometheus/metrics, where `return_perf_metrics` is on."""

from __future__ import annotations

from director.agent.exposition import Dump
from director.agent.reading import Picker, Reading, having, label_values

RUNNING = ("trtllm_num_requests_running",)
WAITING = ("trtllm_num_requests_waiting",)
KV = ("trtllm_kv_cache_utilization",)
BLOCK_TOKENS = ("trtllm_kv_cache_tokens_per_block",)
BLOCKS = ("trtllm_kv_cache_max_blocks",)
TTFT = ("trtllm_time_to_first_token_seconds",)
COUNTERS = {
    "requests_completed": ("trtllm_request_success_total",),
    "prompt_tokens": ("trtllm_prompt_tokens_total",),
    "generation_tokens": ("trtllm_generation_tokens_total",),
}
WANTED = frozenset((*RUNNING, *WAITING, *KV, *BLOCK_TOKENS, *BLOCKS, *(f"{n}_bucket" for n in TTFT))) | frozenset(
    name for names in COUNTERS.values() for name in names
)


def read(dump: Dump) -> list[Reading]:
    return [_read_model(dump, name) for name in label_values(dump, (*RUNNING, *WAITING, *KV), "model_name")]


def _read_model(dump: Dump, served_name: str | None) -> Reading:
    picker = Picker(dump, having("model_name", served_name))
    block_tokens, blocks = picker.greatest("kv_tokens", BLOCK_TOKENS), picker.greatest("kv_tokens", BLOCKS)
    return Reading(
        served_name=served_name,
        running=picker.total("running", RUNNING),
        waiting=picker.total("waiting", WAITING),
        kv_usage=picker.ratio("kv_usage", KV),
        kv_tokens=None if block_tokens is None or blocks is None else block_tokens * blocks,
        counters=picker.counters(COUNTERS),
        started_at_s=picker.started_at_s(),
        ttft_buckets=picker.buckets("ttft_ms", TTFT),
        origins=picker.origins,
    )
