"""Triton with the TensorRT-LLM backend (port 8002). One family holds requests by `request_type`, another KV blocks.

Its ensemble counts each request once per member, so successes are read for the engine's own model only.
"""

from __future__ import annotations

from director.agent.exposition import Dump, Labels
from director.agent.reading import Keep, Picker, Reading, label_values

REQUESTS = ("nv_trt_llm_request_metrics",)
KV_BLOCKS = ("nv_trt_llm_kv_cache_block_metrics",)
SUCCEEDED = ("nv_inference_request_success",)
FAILED = ("nv_inference_request_failure",)
WANTED = frozenset((*REQUESTS, *KV_BLOCKS, *SUCCEEDED, *FAILED))

FAILURE_CLASSES = {"REJECTED": "errors_throttled", "CANCELED": "errors_client"}


def read(dump: Dump) -> list[Reading]:
    return [_read_model(dump, name) for name in label_values(dump, REQUESTS, "model")]


def _read_model(dump: Dump, model: str | None) -> Reading:
    picker = Picker(dump, lambda labels: model is None or labels.get("model") == model)
    blocks, block_tokens = _kv(picker, "max"), _kv(picker, "tokens_per")
    running = picker.total("running", REQUESTS, where=_type("request_type", "scheduled"))
    if running is None:
        running = picker.total("running", REQUESTS, where=_type("request_type", "active"))
    return Reading(
        served_name=model,
        running=running,
        waiting=picker.total("waiting", REQUESTS, where=_type("request_type", "waiting")),
        kv_usage=_kv(picker, "fraction"),
        kv_tokens=None if blocks is None or block_tokens is None else blocks * block_tokens,
        max_running=picker.total("max_running", REQUESTS, where=_type("request_type", "max")),
        counters=_counters(picker),
        started_at_s=picker.started_at_s(),
        origins=picker.origins,
    )


def _type(label: str, value: str) -> Keep:
    def keep(labels: Labels) -> bool:
        return labels.get(label) == value

    return keep


def _kv(picker: Picker, kind: str) -> float | None:
    figure = "kv_usage" if kind == "fraction" else "kv_tokens"
    value = picker.total(figure, KV_BLOCKS, where=_type("kv_cache_block_type", kind))
    return min(value, 1.0) if kind == "fraction" and value is not None else value


def _counters(picker: Picker) -> dict[str, float]:
    counters: dict[str, float] = {}
    succeeded = picker.total("requests_completed", SUCCEEDED)
    if succeeded is not None:
        counters["requests_completed"] = succeeded
    name, failures = picker.series(FAILED)
    for sample in failures:
        figure = FAILURE_CLASSES.get(sample.labels.get("reason", ""), "errors_server")
        counters[figure] = counters.get(figure, 0.0) + sample.value
        picker.origins[figure] = f"{name} by reason"
    return counters
