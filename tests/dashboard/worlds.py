"""A fleet on a real, small database: reports, demand, plans, a policy, events. And a served view of it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import structs

from director.core.events import Event
from director.core.observations import DemandSample, DeploymentTokens, Observations, RouteDemand
from director.core.plan import Plan
from director.core.policy import ClientZone, Location, Model, Objective, Policy, Region, Residency, Tenant
from director.core.report import Adapters, Arrived, Completed, DeploymentReport, Errors, Replicas, Report, Ttft
from director.core.request import RouteKey
from director.core.state import PlannerState
from director.core.step import step
from director.core.table import RoutingTable
from director.core.zones import ZoneIndex
from director.store import demand, events, plans, policies, reports
from director.store.database import Database
from director.store.lease import acquire
from tests.http.fakes import KEYRING, FakeView

VERSION = "2026-08-14"
PLACES = (
    ("eu-west-1", ("EU", "IE"), 53.35, -6.26), ("eu-central-1", ("EU", "DE"), 50.11, 8.68),
    ("us-east-1", ("US",), 38.95, -77.45), ("us-west-2", ("US",), 45.92, -119.27),
    ("ap-northeast-1", ("JP",), 35.68, 139.77),
)  # fmt: skip
LONG = "a-region-whose-name-is-as-long-as-a-name-may-be-in-dns-labels-x"
ZONES = {
    "europe": ClientZone(Location(50.1, 8.7), ("203.0.113.0/24",)),
    "us-east": ClientZone(Location(40.7, -74.0), ("198.51.100.0/24",)),
    "asia": ClientZone(Location(35.7, 139.7), ("192.0.2.128/25",)),
}


def policy_of(places: tuple[tuple[str, tuple[str, ...], float, float], ...], models: tuple[str, ...]) -> Policy:
    """Three tenants, three client zones, and these regions."""
    return Policy(
        jurisdictions=("EU", "IE", "DE", "US", "JP"),
        regions={
            name: Region(f"https://{name}.example.net", tags, Location(lat, lon), price_per_mtok=0.42)
            for name, tags, lat, lon in places
        },
        models={name: Model("interactive") for name in models},
        tenants={
            "acme": Tenant(Residency(allow=("EU",), forbid=("US",)), on_overload="refuse"),
            "globex": Tenant(Residency(allow=("US",))),
            "open": Tenant(Residency(anywhere=True)),
        },
        objectives={"interactive": Objective(spread_ms=25, ms_per_price=20)},
        client_zones=ZONES,
    )


def many(count: int) -> tuple[tuple[str, tuple[str, ...], float, float], ...]:
    """Regions all over the world."""
    return tuple(
        (f"region-{i:03d}", (("EU",), ("US",), ("JP",))[i % 3], -50 + (i * 37) % 115, -175 + (i * 61) % 350)
        for i in range(count)
    )


def deployment_report(model: str, load: float = 0.5, **changes: Any) -> DeploymentReport:
    told: dict[str, Any] = {
        "engine": "vllm",
        "adapters": Adapters(("support-v3",), ("legal-v1",)),
        "max_running": 1024.0,
        "running": 1024.0 * load,
        "waiting": 3.0,
        "kv_usage": load * 0.8,
        "arrived": Arrived(40.0, 100_000.0 * load),
        "completed": Completed(40.0, 80_000.0 * load, 20_000.0 * load),
        "errors_per_s": Errors(server=0.1),
        "ttft_ms": Ttft(180.0, 640.0),
        "capacity_tokens_per_s": 100_000.0,
        "capacity_source": "configured",
    }
    return DeploymentReport(model, VERSION, Replicas(8, 8), **(told | changes))


def report(sequence: int, deployments: tuple[DeploymentReport, ...], boot_id: str = "boot") -> Report:
    return Report(1, boot_id, sequence, "2026-11-30T20:51:07Z", 5.0, deployments)


class World:
    """A fleet that reports, is asked, and is planned for. Everything goes through the real stores and the real step."""

    def __init__(self, database: Database, policy: Policy) -> None:
        self.database = database
        self.policy = policy
        self.view = FakeView(database=database)
        self.view.policy_version = 1
        self.view.table = None
        self.view.zones = ZoneIndex(policy)
        self.state = PlannerState()
        self.sequence = 0
        self.term = 0
        self.time_ms = 0

    @classmethod
    async def made(cls, database: Database, policy: Policy) -> World:
        world = cls(database, policy)
        files = {"policy.yaml": "# as the tests made it\n"}
        assert await policies.add(database, files, policy, "tests", "the first policy") == 1
        term = await acquire(database, "tests", 600)
        assert term is not None
        world.term = term
        world.time_ms = world.view.time_ms = await database.now_ms()
        return world

    async def report(self, region: str, *deployments: DeploymentReport) -> None:
        self.sequence += 1
        told = report(self.sequence, deployments)
        assert await reports.put_report(self.database, region, told, msgspec.json.encode(told)) == "accepted"

    async def ask(self, *routes: RouteDemand) -> None:
        """One replica's second of demand."""
        await demand.put(self.database, DemandSample("test/api/1", self.time_ms, 1_000, routes))

    async def plan(self) -> Plan:
        """One tick: from what is stored to a plan that is stored and served."""
        self.time_ms = self.view.time_ms = await self.database.now_ms()
        samples, _ = await demand.since(self.database, None)
        from director.store import operators

        observations = Observations(
            reports=tuple(await reports.latest_reports(self.database)),
            demand=tuple(structs.replace(one, at_ms=self.time_ms) for one in samples),
            operators=await operators.list_settings(self.database),
            policy_version=self.view.policy_version,
        )
        before = self.state.plan.epoch if self.state.plan is not None else 0
        self.state, plan, happened = step(
            self.state, observations, self.policy, self.time_ms, previous_epoch=before, term=self.term
        )
        await plans.publish(self.database, msgspec.json.encode(self.state), plan, happened, self.term)
        served = plan or self.state.plan
        assert served is not None
        self.view.table = RoutingTable(served, self.policy, KEYRING)
        return served

    async def event(self, kind: str, why: str, **fields: Any) -> None:
        await events.append(self.database, Event(kind, self.time_ms, why, **fields))


def asked(
    tenant: str, model: str, zone: str, new: float, decided: dict[str, float], refused: float = 0.0
) -> RouteDemand:
    """A second of one route: `decided` tokens by region, and what was refused."""
    route = RouteKey(tenant, (), model, "*", None, zone)
    parts = tuple(DeploymentTokens(region, VERSION, tokens) for region, tokens in decided.items())
    return RouteDemand(route, 10, new + refused, (), parts)


async def five(database: Database, model: str = "llama-3.3-70b") -> World:
    """The example fleet: one region full, overflow into its neighbour, a little refused."""
    world = await World.made(database, policy_of(PLACES, (model, "qwen3-32b")))
    loads = {"eu-west-1": 0.95, "eu-central-1": 0.55, "us-east-1": 0.6, "us-west-2": 0.3, "ap-northeast-1": 0.45}
    for region, load in loads.items():
        await world.report(region, deployment_report(model, load), deployment_report("qwen3-32b", load / 2))
    demanded = (
        asked("acme", model, "europe", 60_000, {"eu-central-1": 60_000}, 2_000),
        asked("open", model, "europe", 130_000, {"eu-west-1": 40_000, "eu-central-1": 40_000, "us-east-1": 50_000}),
        asked("globex", model, "us-east", 60_000, {"us-east-1": 60_000}),
        asked("open", model, "asia", 50_000, {"ap-northeast-1": 50_000}),
    )
    await world.ask(*demanded)
    await world.plan()
    return world


async def large(database: Database, regions: int, models: int) -> World:
    """A fleet of many regions, each with every model."""
    names = tuple(f"model-{i:02d}" for i in range(models))
    world = await World.made(database, policy_of(many(regions), names))
    for i, name in enumerate(world.policy.regions):
        await world.report(name, *(deployment_report(model, 0.2 + (i % 7) / 10) for model in names))
    await world.ask(*(asked("open", name, "europe", 2_000, {"region-000": 2_000}) for name in names))
    await world.plan()
    return world
