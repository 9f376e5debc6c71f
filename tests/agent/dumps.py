"""Dumps as the engines write them, built from a few figures, and the voices that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from director.agent.config import DeploymentConfig, Source
from director.agent.engines import WANTED
from director.agent.exposition import Dump, ExpositionParser
from director.agent.summary import DeploymentMemory, Summary, summarise
from director.agent.voice import Voice

MODEL = "meta-llama/Llama-3.3-70B-Instruct"


def parse(text: str) -> Dump:
    return ExpositionParser(WANTED).parse(text)


def vllm_dump(
    *,
    running: Sequence[float] = (3,),
    waiting: Sequence[float] = (0,),
    kv: Sequence[float] = (0.25,),
    kv_names: Iterable[str] = ("vllm:kv_cache_usage_perc",),
    prompt: float = 1_000,
    generation: float = 200,
    stops: float = 10,
    errors: float = 0,
    aborts: float = 0,
    ttft: Sequence[tuple[str, float]] = (("0.1", 4), ("0.5", 10), ("+Inf", 10)),
    blocks: int = 1_000,
    extra: str = "",
) -> str:
    """One server with as many data-parallel engines as figures are given."""

    def gauge(name: str, values: Sequence[float]) -> str:
        lines = [f'{name}{{engine="{i}",model_name="{MODEL}"}} {value}' for i, value in enumerate(values)]
        return "\n".join([f"# HELP {name} A gauge.", f"# TYPE {name} gauge", *lines])

    label = f'engine="0",model_name="{MODEL}"'
    lines = [
        gauge("vllm:num_requests_running", running),
        gauge("vllm:num_requests_waiting", waiting),
        *(gauge(name, kv) for name in kv_names),
        f'vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="{blocks}"}} 1.0',
        f"vllm:prompt_tokens_total{{{label}}} {prompt}",
        f"vllm:prompt_tokens_created{{{label}}} 1.7e+09",
        f"vllm:generation_tokens_total{{{label}}} {generation}",
        f'vllm:request_success_total{{finished_reason="stop",{label}}} {stops}',
        f'vllm:request_success_total{{finished_reason="error",{label}}} {errors}',
        f'vllm:request_success_total{{finished_reason="abort",{label}}} {aborts}',
        *(f'vllm:time_to_first_token_seconds_bucket{{{label},le="{le}"}} {count}' for le, count in ttft),
        f'vllm:num_requests_waiting_by_reason{{{label},reason="capacity"}} {waiting[0]}',
        extra,
    ]
    return "\n".join(lines) + "\n"


def epp_dump(
    *,
    ready: float = 4,
    kv: float = 0.3,
    queue: float = 0.5,
    running: float = 2,
    prefixes: Iterable[str] = ("llm_d_epp_",),
) -> str:
    """A picker of one pool, under one prefix or several at once."""
    lines = []
    for prefix in prefixes:
        old = prefix == "inference_pool_"
        lines += [
            f'{prefix}average_kv_cache_utilization{{name="p1"}} {kv}',
            f'{prefix}average_queue_size{{name="p1"}} {queue}',
            f'{prefix}average_running_requests{{name="p1"}} {running}',
            f'{prefix}{"ready_pods" if old else "ready_endpoints"}{{name="p1"}} {ready}',
        ]
        request = "inference_objective_request_" if old else f"{prefix}request_"
        lines += [f'{request}total{{model_name="m", target_model_name="t"}} 100']
    return "\n".join(lines) + "\n"


def deployment(**settings: object) -> DeploymentConfig:
    chosen = {"model": "llama-3.3-70b", "version": "2026-08-14", "sources": (), "replica_max_running": 8.0} | settings
    return DeploymentConfig(**chosen)  # type: ignore[arg-type]


def voice(
    config: DeploymentConfig, *dumps: str, name: str = "http://r1", every_s: float = 5.0, **source: object
) -> Voice:
    """A voice that heard these dumps, one each `every_s`."""
    made = Voice(name, config, Source(**(source or {"static": (name,)})))  # type: ignore[arg-type]
    for i, text in enumerate(dumps):
        made.observe(parse(text), 100.0 + i * every_s)
    return made


def summary(config: DeploymentConfig, *voices: Voice, at_s: float = 105.0) -> Summary:
    return summarise(config, voices, DeploymentMemory(), at_s)
