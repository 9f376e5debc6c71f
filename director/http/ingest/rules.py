"""What each field of a report must be. The table is the specification: `docs/http.md` lists it from here."""

from __future__ import annotations

from director.core.report import (
    Adapters,
    Arrived,
    Completed,
    DeploymentReport,
    Errors,
    Replicas,
    Scraped,
    Stage,
    Stages,
    Ttft,
)
from director.http.reading.fields import Check, listed, number, one_of, ratio, record, text, timestamp, whole

DEPLOYMENTS_MAX = 2_000
BODY_BYTES_MAX = 4 * 1024 * 1024
ADAPTERS_MAX = 4_096
"""Adapters of one deployment: far more than any engine holds, and few enough to stay a small row."""
INTERVAL_S_MAX = 3_600.0

HEALTH = one_of("ok", "degraded", "down")

_amount = number()
_adapters = listed(text(256), items_max=ADAPTERS_MAX)
_stage = record(Stage, {"max_running": _amount, "running": _amount, "waiting": _amount, "kv_usage": ratio})

DEPLOYMENT_FIELDS: dict[str, Check] = {
    "model": text(256),
    "version": text(128),
    "engine": text(64),
    "state": one_of("serving", "loading", "asleep", "draining"),
    "adapters": record(Adapters, {"loaded": _adapters, "loadable": _adapters}),
    "replicas": record(Replicas, {"ready": whole(), "total": whole()}, required=("ready", "total")),
    "max_running": _amount,
    "running": _amount,
    "waiting": _amount,
    "kv_usage": ratio,
    "kv_usage_max": ratio,
    "kv_tokens": _amount,
    "stages": record(Stages, {"prefill": _stage, "decode": _stage}, required=("prefill", "decode")),
    "arrived": record(Arrived, {"requests_per_s": _amount, "tokens_per_s": _amount}),
    "completed": record(
        Completed,
        {"requests_per_s": _amount, "prompt_tokens_per_s": _amount, "generation_tokens_per_s": _amount},
    ),
    "errors_per_s": record(
        Errors, {"server": _amount, "timeout": _amount, "connect": _amount, "throttled": _amount, "client": _amount}
    ),
    "retry_after_s": _amount,
    "ttft_ms": record(Ttft, {"p50": _amount, "p95": _amount}),
    "capacity_tokens_per_s": _amount,
    "capacity_source": one_of("configured", "estimated"),
    "scraped": record(Scraped, {"answered": whole(), "of": whole()}, required=("answered", "of")),
}
DEPLOYMENT = record(DeploymentReport, DEPLOYMENT_FIELDS, required=("model", "version", "replicas"))

REPORT_FIELDS: dict[str, Check] = {
    "schema": whole(at_least=1),
    "boot_id": text(128),
    "sequence": whole(),
    "observed_at": timestamp,
    "interval_s": number(above=0, at_most=INTERVAL_S_MAX),
    "health": HEALTH,
    "gateway": HEALTH,
}
"""All but `deployments`, which are checked one by one."""
REPORT_REQUIRED = ("schema", "boot_id", "sequence", "observed_at", "interval_s")
