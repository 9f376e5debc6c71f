"""A replica's view without a follower: a small fleet, its plan, and tokens, all in memory."""

from __future__ import annotations

from typing import Any

from director.core.affinity import KeyRing
from director.core.decision import Decision
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.policy import (
    ClientZone,
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
from director.replica.tokens import Grant
from director.replica.view import ReadinessReport
from director.store.database import Database

NOW_MS = 1_796_000_000_000
KEYRING = KeyRing(current="k1", keys={"k1": b"s" * 32})

GRANTS = {
    "decide": Grant("edge", frozenset({"decide"})),
    "decide:acme": Grant("acme-edge", frozenset({"decide:acme"})),
    "envoy": Grant("envoy", frozenset({"decide"}), trusted_headers=True),
    "read": Grant("viewer", frozenset({"read"})),
    "operate": Grant("ops", frozenset({"operate", "read"})),
    "report:eu-west-1": Grant("agent-eu-west-1", frozenset({"report:eu-west-1"})),
    "all": Grant("all", frozenset({"decide", "read", "operate", "report"})),
    "report:us-east-1": Grant("agent-us-east-1", frozenset({"report:us-east-1"})),
}


def auth(name: str = "decide") -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


POLICY = Policy(
    jurisdictions=("EU", "IE", "DE", "US"),
    regions={
        "eu-west-1": Region("https://eu-west-1.example.net", ("EU", "IE"), Location(53.35, -6.26)),
        "eu-central-1": Region("https://eu-central-1.example.net", ("EU", "DE"), Location(50.11, 8.68)),
        "us-east-1": Region("https://us-east-1.example.net", ("US",), Location(38.95, -77.45)),
    },
    models={"llama": Model("interactive"), "qwen": Model("interactive")},
    tenants={
        "acme": Tenant(Residency(allow=("EU",), forbid=("US",)), on_overload="refuse"),
        "globex": Tenant(Residency(allow=("US",))),
        "open": Tenant(Residency(anywhere=True)),
    },
    objectives={"interactive": Objective(spread_ms=40.0)},
    client_zones={
        "europe": ClientZone(Location(50.1, 8.7), ("203.0.113.0/24",)),
        "america": ClientZone(Location(40.0, -80.0), ("198.51.100.0/24",)),
    },
    rtt_ms={
        "europe": {"eu-west-1": 12.0, "eu-central-1": 14.0, "us-east-1": 88.0},
        "america": {"eu-west-1": 80.0, "eu-central-1": 95.0, "us-east-1": 10.0},
    },
)


def deployment(region: str, model: str = "llama", version: str = "2026-08-14", **changes: Any) -> DeploymentPlan:
    told = {
        "ready_replicas": 4,
        "service_ms": 200.0,
        "capacity_tokens_per_s": 100_000.0,
        "capacity_well_tokens_per_s": 100_000.0,
        "headroom_tokens_per_s": 50_000.0,
        "admit_overflow": (1.0,),
    }
    return DeploymentPlan(region, model, version, **{**told, **changes})


def plan(epoch: int = 1841, deployments: tuple[DeploymentPlan, ...] | None = None, **changes: Any) -> Plan:
    if deployments is None:
        deployments = tuple(deployment(region) for region in POLICY.regions)
    told: dict[str, Any] = {
        "epoch": epoch,
        "previous": epoch - 1,
        "term": 1,
        "policy": 17,
        "made_at_ms": NOW_MS - 640,
        "regions": tuple(RegionPlan(region, "fresh") for region in POLICY.regions),
        "deployments": deployments,
        "models_served": ("llama",),
    }
    return Plan(**{**told, **changes})


class FakeTokens:
    """Looks a token up by its own text; counts nothing, hashes nothing."""

    def __init__(self) -> None:
        self.grants = dict(GRANTS)

    def lookup(self, token: bytes) -> Grant | None:
        return self.grants.get(token.decode("latin-1"))


class FakeView:
    """A `ReplicaView` whose every part a test may set."""

    def __init__(self, *, with_plan: bool = True, database: Database | None = None) -> None:
        self.name = "test/api/1"
        self.policy_version = 17
        self.zones = ZoneIndex(POLICY)
        self.static = False
        self.degraded = database is None
        self.tokens: Any = FakeTokens()
        self.database = database
        self.age_ms = 640
        self.time_ms = NOW_MS
        self.table: RoutingTable | None = RoutingTable(plan(), POLICY, KEYRING) if with_plan else None
        self.counted: list[tuple[str, str, float, str | None]] = []
        """(tenant class, region, tokens, presented region) of each decision."""
        self.refused = 0
        self.demand_dropped = 0

    def serve(self, new: Plan, policy: Policy = POLICY) -> None:
        self.table = RoutingTable(new, policy, KEYRING, previous=self.table)

    def now_ms(self) -> int:
        return self.time_ms

    def plan_age_ms(self) -> int:
        return self.age_ms

    def readiness(self) -> ReadinessReport:
        if self.table is None:
            return ReadinessReport("not_ready", ("no_plan",))
        return ReadinessReport("degraded", ("database_unavailable",)) if self.degraded else ReadinessReport("ready")

    def count_decision(
        self, route: CompiledRoute, decision: Decision, tokens: float, presented_region: str | None = None
    ) -> None:
        self.counted.append((route.key.tenant, decision.target.region, tokens, presented_region))

    def count_refusal(self, route: CompiledRoute, tokens: float, presented_region: str | None = None) -> None:
        self.refused += 1

    def count_demand(self, route: CompiledRoute, decision: Decision, requests: int) -> None:
        raise AssertionError("DNS alone counts this way")
