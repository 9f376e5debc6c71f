"""vLLM, from 0.4 to the newest, and vLLM under Ray (whose exporter writes `ray_vllm_` or `ray_vllm:`).

Data-parallel ranks are told apart by `engine`: their counts add up, their KV use is the fullest one's, because a
request that lands on the full rank waits whatever the others have free.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from director.agent.exposition import Dump
from director.agent.reading import Counted, Keep, Picker, Reading, having, label_values, split_list

OUR_FAILURES = frozenset({"error"})
CLIENT_LEFT = frozenset({"abort"})

_SUFFIXES: dict[str, tuple[str, ...]] = {
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "kv": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
    "cache": ("cache_config_info",),
    "sleep": ("engine_sleep_state",),
    "lora": ("lora_requests_info",),
    "finished": ("request_success_total", "request_success"),
    "prompt": ("prompt_tokens_total", "prompt_tokens"),
    "generation": ("generation_tokens_total", "generation_tokens"),
    "finished_prompt": ("request_prompt_tokens_sum",),
    "finished_generation": ("request_generation_tokens_sum",),
    "ttft": ("time_to_first_token_seconds",),
}

HTTP_REQUESTS = "http_requests_total"
"""Of the whole server, by handler, method and status: exact, or as `2xx` to `5xx`."""
HTTP_CLASSES = {"429": "throttled", "503": "throttled", "504": "timeout"}
"""By exact status; the rest by its first digit."""


class VllmNames:
    """The names of each signal under the given prefixes, newest first."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self.of = {key: tuple(p + s for s in suffixes for p in prefixes) for key, suffixes in _SUFFIXES.items()}
        histograms = {f"{name}_bucket" for name in self.of["ttft"]}
        self.wanted = frozenset(n for names in self.of.values() for n in names) | histograms


NAMES = VllmNames(("vllm:",))
WANTED = NAMES.wanted | {HTTP_REQUESTS}


def read(dump: Dump) -> list[Reading]:
    """HTTP's counts name no model: they are taken where the dump serves one model only."""
    readings = read_with(dump, NAMES)
    if len(readings) != 1:
        return readings
    picker = Picker(dump)
    counters = _http_errors(picker)
    reading = readings[0]
    return [structs.replace(reading, counters=reading.counters | counters, origins=reading.origins | picker.origins)]


def read_with(dump: Dump, names: VllmNames) -> list[Reading]:
    of = names.of
    served = label_values(dump, (*of["running"], *of["waiting"], *of["kv"]), "model_name")
    return [_read_model(dump, names, name) for name in served]


def _read_model(dump: Dump, names: VllmNames, served_name: str | None) -> Reading:
    of = names.of
    of_model = having("model_name", served_name)
    picker = Picker(dump, of_model)
    counted = _counted(picker, names)
    label, workers = _workers(picker, of["running"])
    processes = {worker: _counted(Picker(dump, _of_worker(of_model, label, worker)), names) for worker in workers}
    running_adapters, waiting_adapters, adapters_max = _adapters(picker, of["lora"])
    return Reading(
        served_name=served_name,
        ready=max(1, len(workers)),
        asleep=_asleep(picker, of["sleep"]),
        running=picker.total("running", of["running"]),
        waiting=picker.total("waiting", of["waiting"]),
        kv_usage=picker.ratio("kv_usage", of["kv"]),
        kv_tokens=_kv_tokens(picker, of["cache"]),
        counters=counted.counters,
        processes=processes,
        started_at_s=picker.started_at_s(),
        ttft_buckets=counted.ttft_buckets,
        adapters_running=running_adapters,
        adapters_waiting=waiting_adapters,
        adapters_max=adapters_max,
        origins=picker.origins,
    )


def _counted(picker: Picker, names: VllmNames) -> Counted:
    of = names.of
    counters = picker.counters(
        {
            "prompt_tokens": of["prompt"],
            "generation_tokens": of["generation"],
            "finished_prompt_tokens": of["finished_prompt"],
            "finished_generation_tokens": of["finished_generation"],
        }
    )
    return Counted(counters | _finished(picker, of["finished"]), picker.buckets("ttft_ms", of["ttft"]))


def _finished(picker: Picker, names: Sequence[str]) -> dict[str, float]:
    """Requests that ended, by whose doing. One that its client aborted is nobody's failure here."""

    def reason_in(reasons: frozenset[str]) -> float | None:
        return picker.total("", names, where=lambda labels: labels.get("finished_reason") in reasons)

    name, found = picker.series(names)
    if not found:
        return {}
    picker.origins["requests_completed"] = f"{name} but for aborts and errors"
    failed, left = reason_in(OUR_FAILURES), reason_in(CLIENT_LEFT)
    counters = {"requests_completed": sum(s.value for s in found) - (failed or 0.0) - (left or 0.0)}
    if failed is not None:
        counters["errors_server"] = failed
        picker.origins["errors_server"] = f'{name}{{finished_reason="error"}}'
    if left is not None:
        counters["errors_client"] = left
        picker.origins["errors_client"] = f'{name}{{finished_reason="abort"}}'
    picker.origins.pop("", None)
    return counters


def _http_errors(picker: Picker) -> dict[str, float]:
    """Inference requests that were answered with an error, by whose doing. All four are there once one request is."""
    name, found = picker.series((HTTP_REQUESTS,))
    asked = [s for s in found if s.labels.get("handler", "").startswith("/v1/") and s.labels.get("method") == "POST"]
    if not asked:
        return {}
    counters = {f"http_errors_{kind}": 0.0 for kind in ("server", "timeout", "throttled", "client")}
    for sample in asked:
        status = sample.labels.get("status", "")
        kind = HTTP_CLASSES.get(status) or {"4": "client", "5": "server"}.get(status[:1])
        if kind is not None:
            counters[f"http_errors_{kind}"] += sample.value
    picker.origins |= dict.fromkeys(counters, f"{name} by status")
    return counters


def _workers(picker: Picker, names: Sequence[str]) -> tuple[str, list[str]]:
    """The label that tells them apart, and its values: Ray's exporter gathers a node's replicas in one dump.

    Elsewhere a dump is one replica, and there is no such label.
    """
    _, found = picker.series(names)
    for label in ("ReplicaId", "WorkerId"):
        workers = {s.labels[label] for s in found if s.labels.get(label)}
        if workers:
            return label, sorted(workers)
    return "", []


def _asleep(picker: Picker, names: Sequence[str]) -> bool:
    """Asleep when no rank says it is awake and some say otherwise."""
    _, found = picker.series(names)
    awake = [s.value for s in found if s.labels.get("sleep_state") == "awake"]
    return bool(awake) and not any(awake)


def _of_worker(of_model: Keep, label: str, worker: str) -> Keep:
    return lambda labels: of_model(labels) and labels.get(label) == worker


def _kv_tokens(picker: Picker, names: Sequence[str]) -> float | None:
    name, found = picker.series(names)
    sizes = []
    for sample in found:
        try:
            sizes.append(float(sample.labels["block_size"]) * float(sample.labels["num_gpu_blocks"]))
        except (KeyError, ValueError):  # a label "None" before the cache is sized
            continue
    if not sizes:
        return None
    picker.origins["kv_tokens"] = f"{name} block_size × num_gpu_blocks"
    return sum(sizes)


def _adapters(picker: Picker, names: Sequence[str]) -> tuple[tuple[str, ...] | None, tuple[str, ...], int | None]:
    """The newest series' lists. Its value is the time it was set at; the older ones are history that stays behind."""
    name, found = picker.series(names)
    if not found:
        return None, (), None
    newest = max(found, key=lambda sample: sample.value)
    picker.origins["adapters"] = f"{name}, newest of {len(found)}"
    most = newest.labels.get("max_lora", "")
    return (
        split_list(newest.labels.get("running_lora_adapters", "")),
        split_list(newest.labels.get("waiting_lora_adapters", "")),
        int(most) if most.isdigit() else None,
    )
