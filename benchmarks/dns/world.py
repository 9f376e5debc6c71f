"""What the DNS benchmarks serve: eight regions in three client zones, and plans that differ every second."""

from __future__ import annotations

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

APEX = "infer.example.com"
MODEL = "llama-3.3-70b"
REGIONS = [f"region-{i}" for i in range(8)]
NOW_MS = 1_796_000_000_000


def policy() -> Policy:
    near = {r: 10.0 + (i % 3) * 3 for i, r in enumerate(REGIONS)}
    zones = {f"zone-{z}": {r: near[r] + (80.0 if i % 3 != z else 0.0) for i, r in enumerate(REGIONS)} for z in range(3)}
    return Policy(
        jurisdictions=("EU",),
        regions={
            r: Region(
                endpoint=f"https://{r}.infer.example.net",
                jurisdictions=("EU",),
                location=Location(50.0, float(i)),
                addresses=Addresses(A=(f"192.0.2.{i + 1}",), AAAA=(f"2001:db8::{i + 1}",)),
            )
            for i, r in enumerate(REGIONS)
        },
        models={MODEL: Model(objective="interactive")},
        tenants={"acme": Tenant(residency=Residency(allow=("EU",)))},
        objectives={"interactive": Objective(spread_ms=10)},
        client_zones={
            "zone-0": ClientZone(networks=("10.0.0.0/9",)),
            "zone-1": ClientZone(networks=("10.128.0.0/10",)),
            "zone-2": ClientZone(networks=("10.192.0.0/10",)),
        },
        rtt_ms=zones,
        dns={
            APEX: DnsZone(
                nameservers={f"ns1.{APEX}": ("192.0.2.53",)},
                names={"chat.eu": DnsName("acme", MODEL), "api": DnsName("acme", MODEL)},
            )
        },
    )


def plan(epoch: int) -> Plan:
    """Capacities that move with the epoch: every route's shares change with every plan."""
    return Plan(
        epoch=epoch,
        previous=epoch - 1,
        term=1,
        policy=1,
        made_at_ms=NOW_MS,
        regions=tuple(RegionPlan(r, "fresh") for r in REGIONS),
        deployments=tuple(
            DeploymentPlan(
                r,
                MODEL,
                "2026-08-14",
                ready_replicas=4,
                service_ms=100.0,
                capacity_tokens_per_s=100_000.0 + 5_000 * ((epoch + i) % 7),
                capacity_well_tokens_per_s=100_000.0 + 5_000 * ((epoch + i) % 7),
                headroom_tokens_per_s=50_000.0,
                admit_overflow=(1.0,),
            )
            for i, r in enumerate(REGIONS)
        ),
        models_served=(MODEL,),
    )


class World:
    """A view whose plan can be switched."""

    def __init__(self) -> None:
        self.policy = policy()
        self.zones = ZoneIndex(self.policy)
        self.keyring = KeyRing("k1", {"k1": bytes(range(32))})
        self.epoch = 1000
        self.table: RoutingTable | None = RoutingTable(plan(self.epoch), self.policy, self.keyring)
        self.static = False
        self.now = NOW_MS
        self.demand = 0

    def switch(self) -> None:
        self.epoch += 1
        self.now += 1000
        self.table = RoutingTable(plan(self.epoch), self.policy, self.keyring, previous=self.table)

    def now_ms(self) -> int:
        return self.now

    def count_demand(self, route: CompiledRoute, decision: Decision, requests: int) -> None:
        self.demand += requests
