"""Endpoint Pickers: llm-d's, and the Gateway API Inference Extension's before it, under all their names.

A picker speaks for a pool. Its averages are means over ready endpoints, and freeze at their last value when the pool
scales to zero: without a ready endpoint they say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from director.agent.exposition import Dump, Labels, NotUnderstood
from director.agent.reading import Keep, Picker, Reading

NEWEST_FIRST = ("llm_d_epp_", "llm_d_router_epp_", "llm_d_inference_scheduler_")
OLD_REQUEST = ("inference_objective_", "inference_model_")

BACKPRESSURE = frozenset(
    {"ResourceExhausted", "InferencePoolResourceExhausted", "ServiceUnavailable", "TooManyRequests"}
)
CLIENT = frozenset({"BadRequest", "InvalidArgument", "NotFound", "Canceled", "Unauthenticated", "PermissionDenied"})
TIMEOUT = frozenset({"DeadlineExceeded", "Timeout", "GatewayTimeout"})


def _pool(suffix: str, old_suffix: str | None = None) -> tuple[str, ...]:
    return (*(p + suffix for p in NEWEST_FIRST), f"inference_pool_{old_suffix or suffix}")


def _request(suffix: str, *old_suffixes: str) -> tuple[str, ...]:
    olds = old_suffixes or (f"request_{suffix}",)
    return (*(p + f"request_{suffix}" for p in NEWEST_FIRST), *(p + old for p in OLD_REQUEST for old in olds))


READY = _pool("ready_endpoints", "ready_pods")
QUEUED = _pool("average_queue_size")
RUNNING = _pool("average_running_requests")
KV = _pool("average_kv_cache_utilization")
ARRIVED = _request("total")
ERRORS = _request("error_total")
IN_FLIGHT = _request("running", "running_requests")
TTFT = _request("ttft_seconds")
PROMPT = _request("input_tokens_sum", "input_tokens_sum")
GENERATION = _request("output_tokens_sum", "output_tokens_sum")
WANTED = frozenset((*READY, *QUEUED, *RUNNING, *KV, *ARRIVED, *ERRORS, *IN_FLIGHT, *PROMPT, *GENERATION)) | frozenset(
    f"{name}_bucket" for name in TTFT
)


def read(dump: Dump, pool: str | None = None, served_as: Sequence[str] = ()) -> list[Reading]:
    """One reading: of the named pool, or of the only one there is. Requests are those of `served_as`, else all.

    Raises `NotUnderstood` when several pools are there and none is chosen, or the chosen one is not there.
    """
    pool = _choose(dump, pool)
    of_pool = Picker(dump, lambda labels: pool is None or labels.get("name", pool) == pool)
    of_model = Picker(dump, _model_filter(served_as))
    ready = of_pool.total("ready", READY)
    in_flight = of_model.total("running", IN_FLIGHT)
    running, waiting, kv_usage = _figures(of_pool, ready)
    if running is None and ready:
        running = in_flight
    counters = of_model.counters(
        {"requests_arrived": ARRIVED, "finished_prompt_tokens": PROMPT, "finished_generation_tokens": GENERATION}
    )
    counters |= _errors(of_model)
    return [
        Reading(
            served_name=None,
            scope="pool",
            ready=int(ready or 0),
            running=running,
            waiting=waiting,
            kv_usage=kv_usage,
            counters=counters,
            started_at_s=of_pool.started_at_s(),
            ttft_buckets=of_model.buckets("ttft_ms", TTFT),
            origins=of_model.origins | of_pool.origins,
        )
    ]


def _choose(dump: Dump, pool: str | None) -> str | None:
    names = {s.labels["name"] for n in (*READY, *QUEUED, *RUNNING, *KV) for s in dump.get(n) if s.labels.get("name")}
    if pool is not None and names and pool not in names:
        raise NotUnderstood(f"has no pool {pool!r}; it has {', '.join(sorted(names))}")
    if pool is None and len(names) > 1:
        raise NotUnderstood(f"has {len(names)} pools ({', '.join(sorted(names))}): say which with `pool`")
    return pool if pool is not None else next(iter(names), None)


def _figures(picker: Picker, ready: float | None) -> tuple[float | None, float | None, float | None]:
    """(running, waiting, KV use) of the whole pool; nothing where no endpoint is ready or nobody says how many are."""
    if not ready:
        return None, None, None

    def whole(figure: str, names: Sequence[str]) -> float | None:
        mean = picker.greatest(figure, names)
        if mean is None:
            return None
        picker.origins[figure] += " × ready endpoints"
        return mean * ready

    return whole("running", RUNNING), whole("waiting", QUEUED), picker.ratio("kv_usage", KV)


def _model_filter(served_as: Sequence[str]) -> Keep:
    if not served_as:
        return lambda _labels: True
    wanted = frozenset(served_as)

    def keep(labels: Labels) -> bool:
        return labels.get("model_name") in wanted or labels.get("target_model_name") in wanted

    return keep


def _errors(picker: Picker) -> dict[str, float]:
    name, found = picker.series(ERRORS)
    if not found:
        return {}
    counters = dict.fromkeys(("errors_server", "errors_timeout", "errors_throttled", "errors_client"), 0.0)
    for sample in found:
        counters[_error_class(sample.labels.get("error_code", ""))] += sample.value
    picker.origins |= dict.fromkeys(counters, f"{name} by error_code")
    return counters


def _error_class(code: str) -> str:
    if code in BACKPRESSURE:
        return "errors_throttled"
    if code in CLIENT:
        return "errors_client"
    return "errors_timeout" if code in TIMEOUT else "errors_server"
