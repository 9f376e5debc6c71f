"""The documentation's example report, and changed copies of it."""

from __future__ import annotations

import copy
import json
from typing import Any

REPORT: dict[str, Any] = {
    "schema": 1,
    "boot_id": "01JB",
    "sequence": 184467,
    "observed_at": "2026-11-30T20:51:07Z",
    "interval_s": 5,
    "health": "ok",
    "gateway": "ok",
    "deployments": [
        {
            "model": "llama",
            "version": "2026-08-14",
            "engine": "vllm",
            "state": "serving",
            "adapters": {"loaded": ["acme-support-v3"], "loadable": ["acme-legal-v1"]},
            "replicas": {"ready": 12, "total": 12},
            "max_running": 3072,
            "running": 1410,
            "waiting": 12,
            "kv_usage": 0.61,
            "kv_usage_max": 0.74,
            "kv_tokens": 48000000,
            "stages": None,
            "arrived": {"requests_per_s": 97.0, "tokens_per_s": 246000},
            "completed": {"requests_per_s": 96.2, "prompt_tokens_per_s": 182000, "generation_tokens_per_s": 61000},
            "errors_per_s": {"server": 0.1, "timeout": 0.0, "connect": 0.0, "throttled": 0.3, "client": 2.0},
            "retry_after_s": None,
            "ttft_ms": {"p50": 310, "p95": 920},
            "capacity_tokens_per_s": None,
            "capacity_source": "estimated",
            "scraped": {"answered": 12, "of": 12},
        }
    ],
}


def encoded(report: dict[str, Any]) -> bytes:
    return json.dumps(report).encode()


def with_root(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(REPORT), **changes}


def with_deployment(**changes: Any) -> dict[str, Any]:
    """Changes of the one deployment; `...` takes a field away."""
    report = copy.deepcopy(REPORT)
    (one,) = report["deployments"]
    one.update(changes)
    report["deployments"] = [{name: value for name, value in one.items() if value is not ...}]
    return report
