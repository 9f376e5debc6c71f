"""What an engine and an Endpoint Picker expose, written from the demo's own, under the names and labels they use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from director.demo.engine import TTFT_BOUNDS_S, BatchingEngine

Dialect = Literal["vllm", "vllm-old", "sglang"]
PickerDialect = Literal["llm-d", "inference-extension"]


def engine_dump(engine: BatchingEngine, dialect: Dialect, served_name: str, adapters_max: int = 4) -> str:
    """`vllm-old` is a release that still writes the KV gauge's old name beside the new one, and no engine label."""
    if dialect == "sglang":
        return _sglang(engine, served_name)
    label = f'model_name="{served_name}"'
    if dialect == "vllm":
        label = f'engine="0",{label}'
    return _vllm(engine, label, old_names=dialect == "vllm-old", adapters_max=adapters_max)


def _vllm(engine: BatchingEngine, label: str, *, old_names: bool, adapters_max: int) -> str:
    counters, speed = engine.counters, engine.speed
    kv = engine.kv_usage
    lines = [
        *_process(engine.born_at_s),
        *_gauge("vllm:num_requests_running", label, len(engine.running)),
        *_gauge("vllm:num_requests_waiting", label, len(engine.waiting)),
        *_gauge("vllm:kv_cache_usage_perc", label, kv),
        *(_gauge("vllm:gpu_cache_usage_perc", label, kv) if old_names else ()),
        "# TYPE vllm:cache_config_info gauge",
        f'vllm:cache_config_info{{block_size="{speed.kv_block_tokens}",cache_dtype="auto",engine="0",'
        f'num_gpu_blocks="{speed.kv_tokens // speed.kv_block_tokens}"}} 1.0',
        *_counter("vllm:prompt_tokens", label, counters.prompt_tokens),
        *_counter("vllm:generation_tokens", label, int(counters.generated_tokens)),
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{{label},finished_reason="stop"}} {counters.finished}.0',
        f'vllm:request_success_total{{{label},finished_reason="length"}} 0.0',
        f'vllm:request_success_total{{{label},finished_reason="abort"}} {counters.aborted}.0',
        f'vllm:request_success_total{{{label},finished_reason="error"}} 0.0',
        f"vllm:request_prompt_tokens_sum{{{label}}} {counters.finished_prompt_tokens}.0",
        f"vllm:request_prompt_tokens_count{{{label}}} {counters.finished}.0",
        f"vllm:request_generation_tokens_sum{{{label}}} {counters.finished_generated_tokens}.0",
        f"vllm:request_generation_tokens_count{{{label}}} {counters.finished}.0",
        *_ttft("vllm:time_to_first_token_seconds", label, engine),
        *_lora(engine, adapters_max),
    ]
    return "\n".join(lines) + "\n"


def _lora(engine: BatchingEngine, adapters_max: int) -> Iterable[str]:
    running = ",".join(sorted({job.adapter for job in engine.running if job.adapter}))
    waiting = ",".join(sorted({job.adapter for job in engine.waiting if job.adapter}))
    labels = f'max_lora="{adapters_max}",running_lora_adapters="{running}",waiting_lora_adapters="{waiting}"'
    return ("# TYPE vllm:lora_requests_info gauge", f"vllm:lora_requests_info{{{labels}}} {engine.born_at_s + 1:.3f}")


def _sglang(engine: BatchingEngine, served_name: str) -> str:
    """Two tensor-parallel ranks, which repeat the same load."""
    counters = engine.counters
    label = f'model_name="{served_name}"'
    ranks = [f'engine_type="unified",{label},pp_rank="0",tp_rank="{rank}"' for rank in (0, 1)]
    lines = list(_process(engine.born_at_s))
    for rank in ranks:
        lines += _gauge("sglang:num_running_reqs", rank, len(engine.running))
        lines += _gauge("sglang:num_queue_reqs", rank, len(engine.waiting))
        lines += _gauge("sglang:token_usage", rank, engine.kv_usage)
        lines += _gauge("sglang:gen_throughput", rank, round(engine.generating_tokens_per_s, 2))
        lines += _gauge("sglang:max_total_num_tokens", rank, engine.speed.kv_tokens)
    lines += _counter("sglang:prompt_tokens", label, counters.finished_prompt_tokens)
    lines += _counter("sglang:generation_tokens", label, counters.finished_generated_tokens)
    lines += _counter("sglang:num_requests", label, counters.finished)
    lines += _counter("sglang:num_aborted_requests", label, counters.aborted)
    lines += _ttft("sglang:time_to_first_token_seconds", label, engine)
    return "\n".join(lines) + "\n"


class PoolFigures:
    """What a picker knows of one pool: its endpoints now, and the requests it passed on."""

    def __init__(self, pool: str, model: str) -> None:
        self.pool, self.model = pool, model
        self.requests = 0
        self.errors: dict[str, int] = {}
        self.input_tokens = 0
        self.output_tokens = 0

    def failed(self, error_code: str) -> None:
        self.errors[error_code] = self.errors.get(error_code, 0) + 1


def picker_dump(
    pools: Mapping[str, tuple[PoolFigures, list[BatchingEngine]]], dialect: PickerDialect, started_s: float
) -> str:
    """Means over ready endpoints; none are written for a pool that has no endpoint."""
    old = dialect == "inference-extension"
    pool_prefix = "inference_pool_" if old else "llm_d_epp_"
    request_prefix = "inference_objective_" if old else "llm_d_epp_request_"
    ready = "ready_pods" if old else "ready_endpoints"
    lines = list(_process(started_s))
    for name, (figures, engines) in pools.items():
        label = f'name="{name}"'
        lines += _gauge(f"{pool_prefix}{ready}", label, len(engines))
        if engines:
            lines += _gauge(f"{pool_prefix}average_queue_size", label, _mean(engines, lambda e: len(e.waiting)))
            lines += _gauge(f"{pool_prefix}average_running_requests", label, _mean(engines, lambda e: len(e.running)))
            lines += _gauge(f"{pool_prefix}average_kv_cache_utilization", label, _mean(engines, lambda e: e.kv_usage))
        requests = f'fairness_id="",model_name="{figures.model}", priority="0",target_model_name="{name}"'
        total = "inference_objective_request_total" if old else "llm_d_epp_request_total"
        errors = "inference_objective_request_error_total" if old else "llm_d_epp_request_error_total"
        lines += [f"# TYPE {total} counter", f"{total}{{{requests}}} {figures.requests}"]
        lines += [f'{errors}{{error_code="{code}",{requests}}} {count}' for code, count in figures.errors.items()]
        lines += [
            f"{request_prefix}input_tokens_sum{{{requests}}} {figures.input_tokens}",
            f"{request_prefix}output_tokens_sum{{{requests}}} {figures.output_tokens}",
        ]
    return "\n".join(lines) + "\n"


def _mean(engines: list[BatchingEngine], figure: Callable[[BatchingEngine], float]) -> float:
    return sum(figure(engine) for engine in engines) / len(engines)


def _gauge(name: str, label: str, value: float) -> tuple[str, str]:
    return f"# TYPE {name} gauge", f"{name}{{{label}}} {float(value)}"


def _counter(name: str, label: str, value: int) -> tuple[str, str]:
    return f"# TYPE {name}_total counter", f"{name}_total{{{label}}} {float(value)}"


def _process(started_s: float) -> tuple[str, str]:
    return "# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {started_s:.3f}"


def _ttft(name: str, label: str, engine: BatchingEngine) -> list[str]:
    counters = engine.counters
    lines, total = [f"# TYPE {name} histogram"], 0
    for bound, count in zip((*map(str, TTFT_BOUNDS_S), "+Inf"), counters.ttft_buckets, strict=True):
        total += count
        lines.append(f'{name}_bucket{{{label},le="{bound}"}} {total}.0')
    return [*lines, f"{name}_count{{{label}}} {total}.0", f"{name}_sum{{{label}}} {counters.ttft_sum_s}"]
