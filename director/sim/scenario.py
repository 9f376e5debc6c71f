"""What a scenario file says: a policy, a fleet, its demand, what goes wrong, and what must be true at the end.

`director.sim.loading` reads the YAML into these types and refuses what does not fit, by path. Times are seconds of
simulated time from the start.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from director.core.policy import Policy

MODEL = "chat"
VERSION = "1"


class StepTime(Struct, frozen=True, forbid_unknown_fields=True):
    """Milliseconds that one decode step takes with an empty batch and with a full one; linear between."""

    empty: float
    full: float


class EngineSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One replica."""

    step_ms: StepTime
    max_running: int = 256
    prefill_tokens_per_s: float = 20_000.0
    prefill_share: float = 0.8
    """How much of a replica's time a prefill takes while others decode beside it: chunked prefill goes first."""
    kv_tokens: float = 1_000_000.0
    kv_admit: float = 0.95
    """A new request is admitted up to this KV occupancy."""
    prefix_share: float = 0.5
    """How much of a later turn's prompt the session's earlier turns already computed, where the cache is warm."""
    cache_share: float = 0.5
    """How much KV, in tokens of finished requests, stays warm for later turns."""
    prefill_running: int = 4
    """Prompts that a replica of the prefill stage holds at once, where the stages are apart; it computes one."""


class Autoscale(Struct, frozen=True, forbid_unknown_fields=True):
    """Replicas follow load: `target` is requests inside ÷ slots, as a horizontal autoscaler would use it."""

    replicas_min: int
    replicas_max: int
    target: float = 0.75
    every_s: float = 30.0
    startup_s: float = 120.0


class Deployment(Struct, frozen=True, forbid_unknown_fields=True):
    engine: str
    replicas: int
    """Those that decode, where the stages are apart."""
    prefill_replicas: int = 0
    """Above 0: so many replicas do nothing but prefill, and `replicas` do nothing but decode."""
    version: str = VERSION
    adapters_loaded: tuple[str, ...] = ()
    adapters_loadable: tuple[str, ...] = ()
    autoscale: Autoscale | None = None


class Reports(Struct, frozen=True, forbid_unknown_fields=True):
    """How agents report: every `interval_s`, arriving `delay_s` later, each figure off by up to ± `noise`."""

    interval_s: float = 5.0
    delay_s: float = 0.3
    noise: float = 0.0
    drop: float = 0.0
    """The fraction of reports that never arrive."""
    regions: dict[str, float] = {}
    """Interval of single regions, seconds, where it differs."""


class Spread(Struct, frozen=True, forbid_unknown_fields=True):
    """A log-normal's mean, tokens, and coefficient of variation."""

    mean: float
    cv: float = 0.0


class Lengths(Struct, frozen=True, forbid_unknown_fields=True):
    prompt: Spread
    generated: Spread


class Diurnal(Struct, frozen=True, forbid_unknown_fields=True):
    """level · (1 + amplitude · cos(2π (t − peak_at_s) ÷ period_s)), never below 0."""

    level: float
    amplitude: float
    period_s: float
    peak_at_s: float = 0.0


class TraceFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Arrivals and lengths from a file, shifted around its own length; `scale` 2 sends each request twice."""

    path: str
    format: Literal["azure", "mooncake"]
    scale: float = 1.0
    shift_s: float = 0.0


class Bursts(Struct, frozen=True, forbid_unknown_fields=True):
    """The rate × a gamma variate of mean 1 and this coefficient of variation, drawn anew each `every_s`."""

    cv: float
    every_s: float = 1.0


class Sessions(Struct, frozen=True, forbid_unknown_fields=True):
    """Arrivals of which `later_turns` belong to a session begun in the last `life_s` and carry its affinity token."""

    later_turns: float
    life_s: float = 120.0


class Estimates(Struct, frozen=True, forbid_unknown_fields=True):
    """What the caller says of a request's tokens: the truth × ratio × a log-normal of mean 1."""

    ratio: float = 1.0
    cv: float = 0.0


class Edge(Struct, frozen=True, forbid_unknown_fields=True):
    """The L7s of this demand. Each reuses an answer's shares for `reuse_s` and tries `attempts` regions."""

    count: int = 2
    reuse_s: float = 0.0
    attempts: int = 2
    report_outcomes: bool = True


class Resolvers(Struct, frozen=True, forbid_unknown_fields=True):
    """Clients that ask DNS: resolvers whose sizes follow a Zipf law and which keep an answer for the TTL."""

    count: int
    ttl_s: float = 30.0
    zipf: float = 1.0


class Demand(Struct, frozen=True, forbid_unknown_fields=True):
    """One stream of like requests. Exactly one of `steps`, `diurnal`, `trace` says how many."""

    zone: str
    tenant: str
    model: str = MODEL
    of_capacity: str | None = None
    """The region whose nominal capacity levels are multiples of; None: levels are requests/s."""
    steps: tuple[tuple[float, float], ...] | None = None
    """(from second, level)."""
    diurnal: Diurnal | None = None
    trace: TraceFile | None = None
    bursts: Bursts | None = None
    lengths: str | Lengths = "azure_conversation"
    sessions: Sessions | None = None
    estimates: Estimates = Estimates()
    edge: Edge = Edge()
    resolvers: Resolvers | None = None
    residency: tuple[str, ...] = ()
    adapter: str | None = None


FaultKind = Literal[
    "outage",  # the region goes dark, its agent too: nothing enters, what runs is lost
    "agent_silent",  # reports stop; the region lives
    "last_report",  # the same, and its agent lives and says so: health down
    "errors",  # this share of requests ends in a server error
    "throttle",  # this share of requests is answered 429
    "replicas",  # this share of the replicas is lost
    "partition",  # this share of the L7s cannot reach the region
    "drain",  # an operator drains the region
]


class Fault(Struct, frozen=True, forbid_unknown_fields=True):
    kind: FaultKind
    regions: tuple[str, ...]
    at_s: float
    until_s: float | None = None
    share: float = 1.0
    retry_after_s: float | None = None


class Check(Struct, frozen=True, forbid_unknown_fields=True):
    """A figure of a run and its bound. `measure` names a function of `director.sim.checks`."""

    name: str
    measure: str
    at_most: float | None = None
    at_least: float | None = None
    equals: float | None = None
    policy: str = "director"
    against: str | None = None
    """A second policy: the value is this policy's figure ÷ the other's."""
    against_variant: str | None = None
    """The variant in which the second policy ran, where it is another one."""
    region: str | None = None
    demand: str | None = None
    from_s: float = 0.0
    until_s: float | None = None
    new: bool = False
    """Shares of new requests only, without those that an affinity token bound."""
    argument: float | None = None
    text: str | None = None
    """What a measure looks for, where it looks for a word: a decision's reason, an event's kind."""


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    about: str
    duration_s: float
    policy: Policy
    engines: dict[str, EngineSpec]
    fleet: dict[str, dict[str, Deployment]]
    """region → model → deployment."""
    demand: dict[str, Demand]
    seed: int = 1
    reports: Reports = Reports()
    faults: tuple[Fault, ...] = ()
    policies: tuple[str, ...] = ("director",)
    checks: tuple[Check, ...] = ()
    probes: bool = False
    """The director probes every region's gateway itself, once in 5 s."""
    rtt_ms: dict[str, dict[str, float]] = {}
    """What the network really does, where it differs from the policy's matrix."""
    weights: dict[str, float] = {}
    """region → weight, for the static baseline; empty: by nominal capacity."""


class Variant(Struct, frozen=True, forbid_unknown_fields=True):
    """The scenario again with some values set. `set` maps dotted paths to values; `*` is every key or item, a
    last `+` adds to a list."""

    name: str
    set: dict[str, Any] = field(default_factory=dict)


class Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """A seed under which a check fails, kept until it no longer does."""

    seed: int
    check: str
    why: str
    variant: str = ""
