"""A region's timed statement: versions, capacity, load, health, errors. The wire form of a report.

Absent is unknown, never 0: every optional field is None when the reporter did not say. `director.http` validates what
comes in against these types; `director.agent` builds them.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

SCHEMA = 1
"""The newest report schema this code knows. Unknown fields are refused at or below it and ignored above it."""

Health = Literal["ok", "degraded", "down"]
EngineState = Literal["serving", "loading", "asleep", "draining"]
CapacitySource = Literal["configured", "estimated"]


class Adapters(Struct, frozen=True, gc=False):
    loaded: tuple[str, ...] = ()
    loadable: tuple[str, ...] = ()


class Replicas(Struct, frozen=True, gc=False):
    ready: int
    total: int


class Stage(Struct, frozen=True, gc=False):
    """One of the two halves of a deployment that serves prefill and decode apart."""

    max_running: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None


class Stages(Struct, frozen=True, gc=False):
    prefill: Stage
    decode: Stage


class Arrived(Struct, frozen=True, gc=False):
    requests_per_s: float | None = None
    tokens_per_s: float | None = None


class Completed(Struct, frozen=True, gc=False):
    requests_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None


class Errors(Struct, frozen=True, gc=False):
    """Errors by class, per second. Client errors are shown and never count against a region."""

    server: float = 0.0
    timeout: float = 0.0
    connect: float = 0.0
    throttled: float = 0.0
    client: float = 0.0


class Ttft(Struct, frozen=True, gc=False):
    p50: float | None = None
    p95: float | None = None


class Scraped(Struct, frozen=True, gc=False):
    """How many replicas the figures rest on."""

    answered: int
    of: int


class DeploymentReport(Struct, frozen=True, gc=False):
    """One model version served in the region. Rates are per second, tokens are prompt and generated alike."""

    model: str
    version: str
    replicas: Replicas
    engine: str | None = None
    state: EngineState = "serving"
    adapters: Adapters = Adapters()
    max_running: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    kv_usage_max: float | None = None
    kv_tokens: float | None = None
    stages: Stages | None = None
    arrived: Arrived | None = None
    completed: Completed | None = None
    errors_per_s: Errors | None = None
    retry_after_s: float | None = None
    ttft_ms: Ttft | None = None
    capacity_tokens_per_s: float | None = None
    capacity_source: CapacitySource | None = None
    scraped: Scraped | None = None


class Report(Struct, frozen=True, gc=False):
    schema: int
    boot_id: str
    sequence: int
    observed_at: str
    interval_s: float
    deployments: tuple[DeploymentReport, ...]
    health: Health = "ok"
    gateway: Health = "ok"
