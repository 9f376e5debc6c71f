"""SGLang. Tensor and pipeline ranks of one engine repeat the same load, so the lowest rank speaks for its engine;
data-parallel ranks carry loads of their own, which add up. Its token counters count a request when it is done;
`gen_throughput` says what is being generated. With priority scheduling each gauge comes once as a whole
(`priority=""`) and again in parts: the whole is taken.
"""

from __future__ import annotations

from director.agent.exposition import Dump, Labels, Sample
from director.agent.reading import Picker, Reading, StageName, having, label_values

PREFIXES = ("sglang:", "sglang_")
SAME_LOAD_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")


def _names(*suffixes: str) -> tuple[str, ...]:
    return tuple(prefix + suffix for suffix in suffixes for prefix in PREFIXES)


RUNNING = _names("num_running_reqs")
WAITING = _names("num_queue_reqs")
KV = _names("kv_cache_usage_perc", "token_usage")
KV_TOKENS = _names("max_total_num_tokens")
CACHE = _names("cache_config_info")
TTFT = _names("time_to_first_token_seconds")
GENERATING = _names("gen_throughput")
MAX_RUNNING = _names("max_running_requests")
COUNTERS = {
    "requests_completed": _names("num_requests_total"),
    "finished_prompt_tokens": _names("prompt_tokens_total"),
    "finished_generation_tokens": _names("generation_tokens_total"),
    "errors_client": _names("num_aborted_requests_total"),
}
WANTED = (
    frozenset(RUNNING + WAITING + KV + KV_TOKENS + CACHE + GENERATING + MAX_RUNNING)
    | frozenset(f"{name}_bucket" for name in TTFT)
    | frozenset(name for names in COUNTERS.values() for name in names)
)


def read(dump: Dump) -> list[Reading]:
    once = _one_voice_each(dump)
    return [_read_model(once, name) for name in label_values(once, RUNNING + WAITING + KV, "model_name")]


def _read_model(dump: Dump, served_name: str | None) -> Reading:
    picker = Picker(dump, having("model_name", served_name))
    running = picker.total("running", RUNNING)
    generating = picker.total("generating", GENERATING)
    return Reading(
        served_name=served_name,
        stage=_stage(picker),
        running=running,
        # The gauge is set while the engine decodes, and keeps its last value when nothing runs.
        generating_tokens_per_s=0.0 if generating is not None and not running else generating,
        waiting=picker.total("waiting", WAITING),
        kv_usage=picker.ratio("kv_usage", KV),
        kv_tokens=_kv_tokens(picker),
        max_running=picker.total("max_running", MAX_RUNNING),
        counters=picker.counters(COUNTERS),
        started_at_s=picker.started_at_s(),
        ttft_buckets=picker.buckets("ttft_ms", TTFT),
        origins=picker.origins,
    )


def _one_voice_each(dump: Dump) -> Dump:
    """The dump without the repeats: one rank for each engine, no parts beside their whole."""
    once = Dump()
    once.lines = dump.lines
    for name, samples in dump.samples.items():
        once.samples[name] = _lowest_ranks(_wholes(samples))
    return once


def _wholes(samples: list[Sample]) -> list[Sample]:
    wholes = [s for s in samples if not s.labels.get("priority")]
    return wholes or samples


def _lowest_ranks(samples: list[Sample]) -> list[Sample]:
    best: dict[tuple[tuple[str, str], ...], tuple[tuple[int, ...], Sample]] = {}
    for sample in samples:
        engine = tuple(sorted((k, v) for k, v in sample.labels.items() if k not in SAME_LOAD_RANKS))
        rank = tuple(_rank(sample.labels, label) for label in SAME_LOAD_RANKS)
        if engine not in best or rank < best[engine][0]:
            best[engine] = (rank, sample)
    return [sample for _, sample in best.values()]


def _rank(labels: Labels, name: str) -> int:
    text = labels.get(name, "0")
    return int(text) if text.isdigit() else 0


def _stage(picker: Picker) -> StageName | None:
    _, found = picker.series(RUNNING)
    kinds = {s.labels.get("engine_type") for s in found}
    if kinds == {"prefill"}:
        return "prefill"
    return "decode" if kinds == {"decode"} else None


def _kv_tokens(picker: Picker) -> float | None:
    tokens = picker.total("kv_tokens", KV_TOKENS)
    if tokens is not None:
        return tokens
    name, found = picker.series(CACHE)
    try:
        sizes = [float(s.labels["page_size"]) * float(s.labels["num_pages"]) for s in found]
    except (KeyError, ValueError):
        return None
    if not sizes:
        return None
    picker.origins["kv_tokens"] = f"{name} page_size × num_pages"
    return sum(sizes)
