"""A view without a replica, a small policy, and plans in the states that tests want."""

from __future__ import annotations

from typing import Any

from director.core.affinity import KeyRing
from director.core.decision import Decision
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.policy import (
    Addresses,
    ClientZone,
    DnsName,
    DnsZone,
    Location,
    Model,
    Objective,
    Policy,
    Region,
    Residency,
    Tenant,
)
from director.core.route import CompiledRoute
from director.core.table import RoutingTable
from director.core.zones import ZoneIndex

NOW_MS = 1_796_000_000_000
EPOCH = 1841
KEYRING = KeyRing("k1", {"k1": bytes(range(32))})
MODEL = "llama-3.3-70b"
APEX = "infer.example.com"


def policy(**changes: Any) -> Policy:
    """Three regions: two in the EU at the same distance from `europe`, one in the US with IPv4 only."""
    parts: dict[str, Any] = {
        "jurisdictions": ("EU", "US"),
        "regions": {
            "eu-west-1": Region(
                endpoint="https://eu-west-1.infer.example.net",
                jurisdictions=("EU",),
                location=Location(53.35, -6.26),
                addresses=Addresses(A=("192.0.2.10",), AAAA=("2001:db8::10",)),
            ),
            "eu-central-1": Region(
                endpoint="https://eu-central-1.infer.example.net:8443",
                jurisdictions=("EU",),
                location=Location(50.1, 8.7),
                addresses=Addresses(A=("192.0.2.20",), AAAA=("2001:db8::20",)),
            ),
            "us-east-1": Region(
                endpoint="https://us-east-1.infer.example.net",
                jurisdictions=("US",),
                location=Location(39.0, -77.5),
                addresses=Addresses(A=("198.51.100.30",)),
            ),
        },
        "models": {MODEL: Model(objective="interactive")},
        "tenants": {
            "acme": Tenant(residency=Residency(allow=("EU",))),
            "yank": Tenant(residency=Residency(allow=("US",))),
            "open": Tenant(residency=Residency(anywhere=True)),
        },
        "objectives": {"interactive": Objective(spread_ms=10)},
        "client_zones": {
            "europe": ClientZone(networks=("203.0.113.0/24", "2001:db8:1::/48", "10.0.0.0/9")),
            "america": ClientZone(networks=("198.51.100.0/24", "10.128.0.0/9")),
        },
        "rtt_ms": {
            "europe": {"eu-west-1": 12, "eu-central-1": 12, "us-east-1": 88},
            "america": {"eu-west-1": 90, "eu-central-1": 90, "us-east-1": 8},
            "default": {"eu-west-1": 50, "eu-central-1": 50, "us-east-1": 50},
        },
        "dns": {APEX: zone()},
    }
    parts.update(changes)
    return Policy(**parts)


def zone(**changes: Any) -> DnsZone:
    names = {
        "chat.eu": DnsName("acme", MODEL, https=True, txt=("hello",), caa=('0 issue "ca.example.net"',)),
        "chat": DnsName("open", MODEL, https=True),
        "pair.eu": DnsName("acme", MODEL, answers=2),
        "us": DnsName("yank", MODEL),
        "us-nodata": DnsName("yank", MODEL, when_none="nodata"),
        "us-fallback": DnsName(
            "yank", MODEL, when_none="fallback", fallback=Addresses(A=("192.0.2.99",), AAAA=("2001:db8::99",))
        ),
        "us-alias": DnsName("yank", MODEL, when_none="fallback", fallback=Addresses(CNAME="sorry.example.org")),
        "*.wild.eu": DnsName("acme", MODEL),
        "deep.a.b.c": DnsName("open", MODEL),
        "@": DnsName("open", MODEL),
    }
    parts: dict[str, Any] = {
        "nameservers": {f"ns1.{APEX}": ("192.0.2.53", "2001:db8::53"), "ns2.example.org": ("192.0.2.54",)},
        "names": names,
        "hostmaster": "dns.admin@example.com",
    }
    parts.update(changes)
    return DnsZone(**parts)


def deployment(region: str, **changes: Any) -> DeploymentPlan:
    parts: dict[str, Any] = {
        "ready_replicas": 4,
        "service_ms": 100.0,
        "capacity_tokens_per_s": 100_000.0,
        "capacity_well_tokens_per_s": 100_000.0,
        "headroom_tokens_per_s": 50_000.0,
        "admit_overflow": (1.0,),
        "capacity_source": "estimated",
    }
    parts.update(changes)
    return DeploymentPlan(region, MODEL, "2026-08-14", **parts)


def plan(down: tuple[str, ...] = (), epoch: int = EPOCH, **changes: dict[str, Any]) -> Plan:
    """All regions fresh; `down` ones lost. `changes`: region (underscores for hyphens) → fields of its deployment."""
    names = ("eu-west-1", "eu-central-1", "us-east-1")
    return Plan(
        epoch=epoch,
        previous=epoch - 1,
        term=1,
        policy=1,
        made_at_ms=NOW_MS,
        regions=tuple(RegionPlan(n, "lost" if n in down else "fresh") for n in names),
        deployments=tuple(deployment(n, **changes.get(n.replace("-", "_"), {})) for n in names),
        models_served=(MODEL,),
    )


class FakeView:
    """What the responder sees, set by the test."""

    def __init__(self, of: Policy | None = None, at: Plan | None = None, *, table: bool = True) -> None:
        self.policy = of or policy()
        self.zones = ZoneIndex(self.policy)
        self.table: RoutingTable | None = RoutingTable(at or plan(), self.policy, KEYRING) if table else None
        self.static = False
        self.clock_ms = NOW_MS
        self.demand: dict[str, int] = {}

    def now_ms(self) -> int:
        return self.clock_ms

    def count_demand(self, route: CompiledRoute, decision: Decision, requests: int) -> None:
        self.demand[decision.target.region] = self.demand.get(decision.target.region, 0) + requests

    def swap(self, at: Plan) -> None:
        self.table = RoutingTable(at, self.policy, KEYRING, previous=self.table)
