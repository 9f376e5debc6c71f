"""A small policy and plan to compile tables from."""

from __future__ import annotations

from director.core.affinity import KeyRing
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.policy import Model, Objective, Policy, Region, Residency, Tenant
from director.core.request import Request
from director.core.table import RoutingTable

KEYRING = KeyRing(current="k1", keys={"k1": bytes(range(32))})
POLICY = Policy(
    jurisdictions=("EU", "US"),
    regions={
        "eu-west-1": Region(endpoint="https://eu.example.net", jurisdictions=("EU",)),
        "us-east-1": Region(endpoint="https://us.example.net", jurisdictions=("US",)),
    },
    models={"llama": Model(objective="interactive", estimated_tokens=1_000.0)},
    tenants={
        "acme": Tenant(residency=Residency(allow=("EU",))),
        "open": Tenant(residency=Residency(anywhere=True)),
    },
    objectives={"interactive": Objective(spread_ms=10.0)},
    rtt_ms={"default": {"eu-west-1": 10.0, "us-east-1": 90.0}},
)
REQUEST = Request(tenant="acme", model="llama", client_zone="default", key="conv-1")


def deployment(region: str, **changes: object) -> DeploymentPlan:
    fields: dict[str, object] = {
        "region": region,
        "model": "llama",
        "version": "1",
        "ready_replicas": 4,
        "capacity_tokens_per_s": 1_000.0,
        "capacity_well_tokens_per_s": 1_000.0,
        "headroom_tokens_per_s": 500.0,
        "admit_overflow": (1.0,),
        **changes,
    }
    return DeploymentPlan(**fields)  # type: ignore[arg-type]


def plan(epoch: int = 100, *, served: bool = True, **changes: object) -> Plan:
    regions = ("eu-west-1", "us-east-1")
    fields: dict[str, object] = {
        "epoch": epoch,
        "previous": epoch - 1,
        "term": 1,
        "policy": 1,
        "made_at_ms": 1_000,
        "regions": tuple(RegionPlan(region, "fresh" if served else "unseen") for region in regions),
        "deployments": tuple(deployment(region) for region in regions) if served else (),
        "models_served": ("llama",) if served else (),
        **changes,
    }
    return Plan(**fields)  # type: ignore[arg-type]


def table(epoch: int = 100, **changes: object) -> RoutingTable:
    return RoutingTable(plan(epoch, **changes), POLICY, KEYRING)  # type: ignore[arg-type]
