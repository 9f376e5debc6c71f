"""NVIDIA Dynamo. The frontend speaks for a model's whole pool of workers; a worker speaks for its KV cache only.

`queued` counts a request until its first token, prefill included, and `inflight` counts it until it is done.
"""

from __future__ import annotations

from director.agent.exposition import Dump
from director.agent.reading import Picker, Reading, having, label_values

IN_FLIGHT = ("dynamo_frontend_inflight_requests",)
QUEUED = ("dynamo_frontend_queued_requests",)
WORKERS = ("dynamo_frontend_model_workers",)
MAX_SEQUENCES = ("dynamo_frontend_model_max_num_seqs",)
REQUESTS = ("dynamo_frontend_requests_total",)
PROMPT = ("dynamo_frontend_input_sequence_tokens_sum",)
GENERATION = ("dynamo_frontend_output_tokens_total", "dynamo_frontend_output_sequence_tokens_sum")
TTFT = ("dynamo_frontend_time_to_first_token_seconds",)
KV = ("dynamo_component_kvstats_gpu_cache_usage_percent",)
"""From 0 to 1 in spite of its name."""
WANTED = frozenset((*IN_FLIGHT, *QUEUED, *WORKERS, *MAX_SEQUENCES, *REQUESTS, *PROMPT, *GENERATION, *KV)) | frozenset(
    f"{name}_bucket" for name in TTFT
)


def read(dump: Dump) -> list[Reading]:
    frontends = [_read_frontend(dump, name) for name in label_values(dump, (*IN_FLIGHT, *QUEUED), "model")]
    if not frontends and any(name in dump for name in KV):
        picker = Picker(dump)
        return [Reading(scope="kv", kv_usage=picker.ratio("kv_usage", KV), origins=picker.origins)]
    return frontends


def _read_frontend(dump: Dump, model: str | None) -> Reading:
    picker = Picker(dump, having("model", model))
    in_flight, queued = picker.total("running", IN_FLIGHT), picker.total("waiting", QUEUED)
    running = in_flight
    if in_flight is not None and queued is not None:
        running = max(0.0, in_flight - queued)
        picker.origins["running"] = f"{IN_FLIGHT[0]} − {QUEUED[0]}"
    workers = picker.greatest("ready", WORKERS)
    per_worker = picker.greatest("max_running", MAX_SEQUENCES)
    return Reading(
        served_name=model,
        scope="pool",
        ready=int(workers) if workers is not None else 1,
        running=running,
        waiting=queued,
        kv_usage=picker.ratio("kv_usage", KV),
        max_running=None if per_worker is None or workers is None else per_worker * workers,
        counters=_counters(picker),
        started_at_s=picker.started_at_s(),
        ttft_buckets=picker.buckets("ttft_ms", TTFT),
        origins=picker.origins,
    )


def _counters(picker: Picker) -> dict[str, float]:
    counters = picker.counters({"finished_prompt_tokens": PROMPT, "finished_generation_tokens": GENERATION})
    name, found = picker.series(REQUESTS)
    for sample in found:
        figure = "errors_server" if sample.labels.get("status") == "error" else "requests_completed"
        counters[figure] = counters.get(figure, 0.0) + sample.value
        picker.origins[figure] = f"{name} by status"
    return counters
