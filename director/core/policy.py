"""What operators decide, validated. `director.policy` builds these objects from files; the core only reads them.

Every setting carries its range and its effect, from which the loader, the JSON Schema and docs/policy.md are made.
A default stands beside its reason. Units are in the names.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

DEFAULT_ZONE = "default"
"""The zone of a client that no `client_zones` entry claims."""

RegionId = Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
"""Lowercase letters, digits, hyphens: it travels in headers, metric labels, DNS names and command lines."""
Name = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._/@:+-]*$", max_length=128)]
"""A tenant, model, objective, zone or jurisdiction: no spaces, no control characters, nothing to quote in a header."""
Jurisdiction = Name

Ratio = Annotated[float, Meta(ge=0, le=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Ttl = Annotated[int, Meta(ge=0, le=86_400)]


class Location(Struct, frozen=True):
    """Degrees; latitude -90..90, longitude -180..180."""

    lat: Annotated[float, Meta(ge=-90, le=90, description="latitude in degrees, north is positive")]
    lon: Annotated[float, Meta(ge=-180, le=180, description="longitude in degrees, east is positive")]


class Probe(Struct, frozen=True):
    """A real HTTP request that every replica sends to the region's gateway."""

    url: Annotated[str, Meta(description="what is asked, with GET")]
    interval_s: Annotated[Positive, Meta(description="from one probe to the next")] = 5.0
    timeout_s: Annotated[Positive, Meta(description="an answer later than this is a failure")] = 2.0
    tolerated_failures: Annotated[int, Meta(ge=0, description="failures in a row that change nothing")] = 2
    """One lost packet is no outage; two in a row still may be one lost path."""


class Addresses(Struct, frozen=True):
    """What DNS answers for a region. Empty where the policy gives none."""

    A: Annotated[tuple[str, ...], Meta(description="IPv4 addresses")] = ()
    AAAA: Annotated[tuple[str, ...], Meta(description="IPv6 addresses")] = ()
    CNAME: Annotated[str | None, Meta(description="a host name instead of addresses")] = None

    @property
    def empty(self) -> bool:
        return not (self.A or self.AAAA or self.CNAME)


class Region(Struct, frozen=True):
    """A failure and policy domain. Without jurisdictions no tenant with a residency rule ever reaches it."""

    endpoint: Annotated[str, Meta(description="URL of the region's gateway, as the L7 is to call it")]
    jurisdictions: Annotated[
        tuple[Jurisdiction, ...], Meta(description="whose law governs it, from the vocabulary")
    ] = ()
    location: Annotated[Location | None, Meta(description="gives round trips where `rtt_ms` has none")] = None
    addresses: Annotated[Addresses, Meta(description="what DNS answers for it")] = Addresses()
    price_per_mtok: Annotated[NotNegative, Meta(description="for a million tokens, prompt and generated alike")] = 0.0
    capacity_max: Annotated[
        dict[Name, Positive], Meta(description="model → tokens/s that it may be given, whatever it seems able to do")
    ] = {}
    probe: Annotated[Probe | None, Meta(description="how replicas check the gateway themselves")] = None


class Model(Struct, frozen=True):
    """A served model. `version` is the default glob for requests that name none."""

    objective: Annotated[Name, Meta(description="what its traffic wants, unless the tenant says otherwise")]
    version: Annotated[str, Meta(min_length=1, description="glob for requests that name no version")] = "*"
    estimated_tokens: Annotated[Positive, Meta(description="tokens of a request that does not estimate its own")] = (
        1_400.0
    )
    """The mean of a public conversation trace, 1,155 in and 211 out."""
    adapter_load_ms: Annotated[NotNegative, Meta(description="nearness of loading an adapter that is not loaded")] = (
        800.0
    )
    """Reading some hundred MB from local disk and registering them."""


class Residency(Struct, frozen=True):
    """Where a tenant's data may be processed. `anywhere` is a choice, never a default."""

    anywhere: Annotated[bool, Meta(description="no jurisdiction is required; `residency: anywhere` says the same")] = (
        False
    )
    allow: Annotated[tuple[Jurisdiction, ...], Meta(description="a region needs one of these")] = ()
    forbid: Annotated[tuple[Jurisdiction, ...], Meta(description="a region with one of these is out")] = ()


class Tenant(Struct, frozen=True):
    """Who asks, and what they may be given."""

    residency: Annotated[Residency, Meta(description="where data may be processed; always said, never assumed")]
    deny_regions: Annotated[tuple[RegionId, ...], Meta(description="regions it never enters, residency aside")] = ()
    on_overload: Annotated[
        Literal["refuse", "share"],
        Meta(description="when all candidates are full: refuse at once, or fill to the ceiling"),
    ] = "share"
    objective: Annotated[Name | None, Meta(description="overrides the model's objective for this tenant")] = None


class Objective(Struct, frozen=True):
    """What a class of traffic wants. `spread_ms` is the one locality knob."""

    spread_ms: Annotated[
        NotNegative, Meta(description="a candidate this much farther than the nearest gets no home share")
    ] = 10.0
    """Zones of one metropolitan area, and no more, share a home."""
    ms_per_price: Annotated[NotNegative, Meta(description="what one would wait to save one unit of price")] = 0.0
    max_rtt_ms: Annotated[Positive | None, Meta(description="a longer round trip drops the candidate: `too_far`")] = (
        None
    )
    error_weight: Annotated[NotNegative, Meta(description="quality lost for an error rate of 1")] = 4.0
    """A quarter of requests failing leaves nothing but `quality_min`."""
    quality_min: Annotated[float, Meta(gt=0, le=1, description="quality never falls below it")] = 0.1
    """Something must still arrive for a recovery to be seen."""


class ClientZone(Struct, frozen=True):
    """A part of the world that requests come from."""

    location: Annotated[Location | None, Meta(description="gives round trips where `rtt_ms` has none")] = None
    networks: Annotated[tuple[str, ...], Meta(description="address prefixes; the longest match wins")] = ()
    countries: Annotated[tuple[str, ...], Meta(description="ISO 3166 codes; they need `geoip`")] = ()


class Planner(Struct, frozen=True):
    """How the planner ages reports and admits traffic."""

    fresh_for_s: Annotated[Positive, Meta(description="an older report is stale: no overflow into that region")] = 10.0
    """Two intervals of 5 s: one late report is nothing."""
    lost_after_s: Annotated[Positive, Meta(description="an older report means the region is lost")] = 30.0
    """A reporter that restarts in the meantime moves no traffic."""
    home_target: Annotated[Ratio, Meta(description="utilisation up to which a region serves its own clients")] = 0.90
    overflow_target: Annotated[
        Ratio, Meta(description="utilisation up to which it takes guests; below `home_target`")
    ] = 0.80
    """Guests stop before residents suffer."""
    overload_ceiling: Annotated[float, Meta(ge=1, le=2, description="utilisation that even overload does not pass")] = (
        1.10
    )
    recovery_per_s: Annotated[float, Meta(gt=0, le=1, description="how fast admissions rise")] = 0.02
    """Fifty seconds from nothing to everything: KV caches fill in about that."""
    moved_share_max: Annotated[Ratio, Meta(description="a policy change that moves more is refused unless forced")] = (
        0.30
    )


class Affinity(Struct, frozen=True):
    """How long a session stays with its region."""

    ttl_s: Annotated[float, Meta(gt=0, le=86_400, description="life of an affinity token")] = 600.0
    """Past ten idle minutes the prefix cache is gone anyway."""


class Breaker(Struct, frozen=True):
    """When a deployment that fails is taken out, and how it returns."""

    failures_to_open: Annotated[Count, Meta(description="failures that open it, across interleaved successes")] = 20
    successes_to_close: Annotated[Count, Meta(description="successes that close it when half open")] = 10
    successes_to_forget: Annotated[Count, Meta(description="successes in a row that forget counted failures")] = 50
    open_s: Annotated[Positive, Meta(description="first open period; each further one is longer")] = 10.0
    open_s_max: Annotated[Positive, Meta(description="longest open period")] = 300.0
    trial_ratio: Annotated[float, Meta(gt=0, le=1, description="traffic let through when half open")] = 0.02
    ejected_capacity_max: Annotated[Ratio, Meta(description="part of a model's capacity that may be open at once")] = (
        0.67
    )
    """Above two thirds it is likelier that we are wrong than that they are."""


class DnsName(Struct, frozen=True):
    """One name: a route, its TTLs, and what to say when nobody is left."""

    tenant: Annotated[Name, Meta(description="the route's tenant")]
    model: Annotated[Name, Meta(description="the route's model")]
    version: Annotated[str | None, Meta(description="the route's version, exact or a glob")] = None
    adapter: Annotated[str | None, Meta(description="the route's adapter")] = None
    ttl_s: Annotated[Ttl, Meta(description="TTL of answers while all is well")] = 20
    ttl_trouble_s: Annotated[Ttl, Meta(description="TTL while one of its regions is in trouble")] = 5
    answers: Annotated[int, Meta(ge=1, le=8, description="regions in one answer")] = 1
    """More would let resolvers rotate away from the pick."""
    when_none: Annotated[
        Literal["servfail", "nodata", "fallback"], Meta(description="the answer when no permitted region is left")
    ] = "servfail"
    fallback: Annotated[Addresses, Meta(description="addresses for `when_none: fallback`")] = Addresses()
    https: Annotated[bool, Meta(description="also answer HTTPS and SVCB records")] = False
    txt: Annotated[tuple[str, ...], Meta(description="TXT records")] = ()
    caa: Annotated[tuple[str, ...], Meta(description='CAA records, as `0 issue "ca.example.net"`')] = ()


class DnsZone(Struct, frozen=True):
    """An apex and the names under it. `nameservers` maps a host to its addresses."""

    nameservers: Annotated[dict[str, tuple[str, ...]], Meta(description="host → its addresses")]
    names: Annotated[
        dict[str, DnsName], Meta(description="relative to the apex; `*` leftmost is a wildcard, `@` is the apex")
    ]
    negative_ttl_s: Annotated[Ttl, Meta(description="how long resolvers keep a negative answer")] = 10
    ttl_s: Annotated[Ttl, Meta(description="TTL of NS, SOA and glue")] = 3600
    hostmaster: Annotated[str | None, Meta(description="mail address in the SOA")] = None


class Policy(Struct, frozen=True):
    """A whole policy. Cross-references are checked by the loader: a name that is used here exists here."""

    jurisdictions: Annotated[tuple[Jurisdiction, ...], Meta(description="the closed vocabulary of jurisdictions")]
    regions: Annotated[dict[RegionId, Region], Meta(description="failure and policy domains that report as one")]
    models: Annotated[dict[Name, Model], Meta(description="what is served")]
    tenants: Annotated[dict[Name, Tenant], Meta(description="who asks")]
    objectives: Annotated[dict[Name, Objective], Meta(description="what classes of traffic want")]
    default_tenant: Annotated[Name | None, Meta(description="tenant of requests that name none")] = None
    client_zones: Annotated[dict[Name, ClientZone], Meta(description="where requests come from")] = {}
    geoip: Annotated[str | None, Meta(description="path of an mmdb file")] = None
    rtt_ms: Annotated[
        dict[Name, dict[RegionId, NotNegative]], Meta(description="client zone → region → round trip, measured")
    ] = {}
    egress_price_per_mtok: Annotated[
        dict[Name, dict[RegionId, NotNegative]],
        Meta(description="client zone → region → moving a million tokens' text, in the unit of `price_per_mtok`"),
    ] = {}
    planner: Annotated[Planner, Meta(description="reports and admissions")] = Planner()
    affinity: Annotated[Affinity, Meta(description="session tokens")] = Affinity()
    breaker: Annotated[Breaker, Meta(description="circuit breakers")] = Breaker()
    dns: Annotated[dict[str, DnsZone], Meta(description="apex → zone")] = {}
