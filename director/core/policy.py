"""What operators decide, validated. `director.policy` builds these objects from files; the core only reads them.

Every default stands beside its reason. Units are in the names.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

DEFAULT_ZONE = "default"
"""The zone of a client that no `client_zones` entry claims."""


class Location(Struct, frozen=True):
    """Degrees; latitude -90..90, longitude -180..180."""

    lat: float
    lon: float


class Probe(Struct, frozen=True):
    """A real HTTP request that every replica sends to the region's gateway."""

    url: str
    interval_s: float = 5.0
    timeout_s: float = 2.0
    tolerated_failures: int = 2


class Addresses(Struct, frozen=True):
    """What DNS answers for a region. Empty where the policy gives none."""

    A: tuple[str, ...] = ()
    AAAA: tuple[str, ...] = ()
    CNAME: str | None = None


class Region(Struct, frozen=True):
    """A failure and policy domain. Without jurisdictions no tenant with a residency rule ever reaches it."""

    endpoint: str
    jurisdictions: tuple[str, ...] = ()
    location: Location | None = None
    addresses: Addresses = Addresses()
    price_per_mtok: float = 0.0
    capacity_max: dict[str, float] = {}
    """model → tokens/s that this region may be given, whatever it seems able to do."""
    probe: Probe | None = None


class Model(Struct, frozen=True):
    """A served model. `version` is the default glob for requests that name none."""

    objective: str
    version: str = "*"
    estimated_tokens: float = 1_400.0
    """Tokens of a request that says nothing: the mean of a public conversation trace, 1,155 in and 211 out."""
    adapter_load_ms: float = 800.0
    """What loading an adapter that is only loadable costs a request, in nearness."""


class Residency(Struct, frozen=True):
    """Where a tenant's data may be processed. `anywhere` is a choice, never a default."""

    anywhere: bool = False
    allow: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


class Tenant(Struct, frozen=True):
    residency: Residency
    deny_regions: tuple[str, ...] = ()
    on_overload: Literal["refuse", "share"] = "share"
    objective: str | None = None
    """Overrides the model's objective for this tenant."""


class Objective(Struct, frozen=True):
    """What a class of traffic wants. `spread_ms` is the one locality knob."""

    spread_ms: float = 10.0
    ms_per_price: float = 0.0
    max_rtt_ms: float | None = None
    error_weight: float = 4.0
    quality_min: float = 0.1


class ClientZone(Struct, frozen=True):
    location: Location | None = None
    networks: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()


class Planner(Struct, frozen=True):
    fresh_for_s: float = 10.0
    lost_after_s: float = 30.0
    home_target: float = 0.90
    overflow_target: float = 0.80
    overload_ceiling: float = 1.10
    recovery_per_s: float = 0.02
    moved_share_max: float = 0.30


class Affinity(Struct, frozen=True):
    ttl_s: float = 600.0


class Breaker(Struct, frozen=True):
    failures_to_open: int = 20
    successes_to_close: int = 10
    successes_to_forget: int = 50
    open_s: float = 10.0
    open_s_max: float = 300.0
    trial_ratio: float = 0.02
    ejected_capacity_max: float = 0.67


class DnsName(Struct, frozen=True):
    """One name: a route, its TTLs, and what to say when nobody is left."""

    tenant: str
    model: str
    version: str | None = None
    adapter: str | None = None
    ttl_s: int = 20
    ttl_trouble_s: int = 5
    answers: int = 1
    when_none: Literal["servfail", "nodata", "fallback"] = "servfail"
    fallback: Addresses = Addresses()
    https: bool = False
    txt: tuple[str, ...] = ()
    caa: tuple[str, ...] = ()


class DnsZone(Struct, frozen=True):
    """An apex and the names under it. `nameservers` maps a host to its addresses."""

    nameservers: dict[str, tuple[str, ...]]
    names: dict[str, DnsName]
    negative_ttl_s: int = 10
    ttl_s: int = 3600
    """TTL of NS, SOA and glue."""
    hostmaster: str | None = None


class Policy(Struct, frozen=True):
    """A whole policy. Cross-references are checked by the loader: a name that is used here exists here."""

    jurisdictions: tuple[str, ...]
    regions: dict[str, Region]
    models: dict[str, Model]
    tenants: dict[str, Tenant]
    objectives: dict[str, Objective]
    default_tenant: str | None = None
    client_zones: dict[str, ClientZone] = {}
    geoip: str | None = None
    rtt_ms: dict[str, dict[str, float]] = {}
    """client zone → region → round trip, ms."""
    egress_price_per_mtok: dict[str, dict[str, float]] = {}
    """client zone → region → what moving a million tokens' text costs, in the unit of `price_per_mtok`."""
    planner: Planner = Planner()
    affinity: Affinity = Affinity()
    breaker: Breaker = Breaker()
    dns: dict[str, DnsZone] = {}
