"""Small worlds for the core's tests: policies, plans, reports and a loop that steps them. No files, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp

from msgspec import structs

from director.core.affinity import KeyRing
from director.core.events import Event
from director.core.invariants import check_invariants
from director.core.observations import (
    DemandSample,
    DeploymentTokens,
    Observations,
    OperatorSetting,
    Outcome,
    ProbeResult,
    ReceivedReport,
    RouteDemand,
)
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.policy import (
    ClientZone,
    Location,
    Model,
    Objective,
    Planner,
    Policy,
    Probe,
    Region,
    Residency,
    Tenant,
)
from director.core.report import (
    Adapters,
    Arrived,
    Completed,
    DeploymentReport,
    Errors,
    Replicas,
    Report,
)
from director.core.request import Request, RouteKey
from director.core.state import PlannerState
from director.core.step import StepResult, step
from director.core.table import RoutingTable

NOW_MS = 1_900_000_000_000
MODEL = "m"
KEYRING = KeyRing("k1", {"k1": b"1" * 32})


def make_policy(
    regions: dict[str, Region] | None = None,
    tenants: dict[str, Tenant] | None = None,
    rtt_ms: dict[str, float] | None = None,
    **settings: object,
) -> Policy:
    """Regions eu, us and ap, 10 ms apart as seen from zone `here`; one tenant `any` that may go anywhere."""
    regions = regions or {
        "eu": Region("https://eu", ("EU",)),
        "us": Region("https://us", ("US",)),
        "ap": Region("https://ap", ("JP",)),
    }
    rtt_ms = rtt_ms or {name: 10.0 + 30.0 * i for i, name in enumerate(regions)}
    defaults: dict[str, object] = {
        "models": {MODEL: Model("o")},
        "objectives": {"o": Objective(spread_ms=20.0)},
        "client_zones": {"here": ClientZone(location=Location(0.0, 0.0))},
        "jurisdictions": ("EU", "US", "JP"),
        "planner": Planner(),
    }
    return Policy(
        regions=regions,
        tenants=tenants or {"any": Tenant(Residency(anywhere=True))},
        rtt_ms={"here": rtt_ms},
        **{**defaults, **settings},  # type: ignore[arg-type]
    )


def make_deployment(region: str, version: str = "1", model: str = MODEL, **fields: object) -> DeploymentPlan:
    """A healthy deployment of 1,000 tokens/s that takes everybody."""
    defaults: dict[str, object] = {
        "ready_replicas": 1,
        "capacity_tokens_per_s": 1000.0,
        "capacity_well_tokens_per_s": 1000.0,
        "headroom_tokens_per_s": 800.0,
        "admit_overflow": (1.0,),
        "admit_overload": (1.0,),
    }
    return DeploymentPlan(region, model, version, **{**defaults, **fields})  # type: ignore[arg-type]


def make_plan(policy: Policy, deployments: list[DeploymentPlan], epoch: int = 1, **regions: RegionPlan) -> Plan:
    """Every region fresh unless given by name."""
    return Plan(
        epoch=epoch,
        previous=epoch - 1,
        term=1,
        policy=1,
        made_at_ms=NOW_MS,
        regions=tuple(regions.get(name.replace("-", "_"), RegionPlan(name, "fresh")) for name in policy.regions),
        deployments=tuple(deployments),
        models_served=tuple(sorted({d.model for d in deployments})),
    )


def make_table(policy: Policy, deployments: list[DeploymentPlan], **regions: RegionPlan) -> RoutingTable:
    return RoutingTable(make_plan(policy, deployments, **regions), policy, KEYRING)


def ask(tenant: str = "any", key: str = "s", **fields: object) -> Request:
    return Request(tenant, MODEL, "here", key, **fields)  # type: ignore[arg-type]


def route_to(tenant: str = "any", zone: str = "here") -> RouteKey:
    return RouteKey(tenant, (), MODEL, "*", None, zone)


@dataclass
class Site:
    """One region's single deployment: slots fill with what flows in and empty at `rate`, tokens/s per slot."""

    slots: float = 100.0
    rate: float = 10.0
    inflow: float = 0.0
    """Tokens/s that the plan sends here, over the last interval; the world sets it."""
    done: float = 0.0
    """Tokens/s that came out of it, over the last interval."""
    running: float = 0.0
    """Occupied slots at this moment."""
    life_s: float = 2.0
    """How long a request holds its slot."""
    version: str = "1"
    replicas: int = 4
    reports: bool = True
    health: str = "ok"
    state: str = "serving"
    errors: Errors | None = None
    retry_after_s: float | None = None
    requests_per_s: float = 20.0
    adapters: Adapters = field(default_factory=Adapters)

    @property
    def capacity(self) -> float:
        return self.slots * self.rate

    def pass_second(self, inflow: float) -> float:
        """Let a second's inflow (tokens/s) in; returns the tokens/s that came out. What finds no slot is forgotten."""
        before = self.running
        level = inflow / self.rate
        self.running = min(self.slots, level + (before - level) * exp(-1.0 / self.life_s))
        return self.rate * (before + self.running) / 2.0

    def report(self, sequence: int, interval_s: float) -> Report:
        deployment = DeploymentReport(
            MODEL,
            self.version,
            Replicas(self.replicas, self.replicas),
            state=self.state,  # type: ignore[arg-type]
            adapters=self.adapters,
            max_running=self.slots,
            running=self.running,
            waiting=0.0,
            arrived=Arrived(self.requests_per_s, self.inflow),
            completed=Completed(self.requests_per_s, self.done * 0.8, self.done * 0.2),
            errors_per_s=self.errors or Errors(),
            retry_after_s=self.retry_after_s,
        )
        return Report(1, "boot", sequence, "", interval_s, (deployment,), health=self.health)  # type: ignore[arg-type]


class World:
    """A policy, sites and demand, stepped once a second. What it publishes is checked each time."""

    def __init__(self, policy: Policy, sites: dict[str, Site], demand: dict[RouteKey, float] | None = None) -> None:
        self.policy = policy
        self.sites = sites
        self.demand = demand or {}
        self.pinned: dict[RouteKey, dict[str, float]] = {}
        self.operators: tuple[OperatorSetting, ...] = ()
        self.outcomes: tuple[Outcome, ...] = ()
        self.probes: tuple[ProbeResult, ...] = ()
        self.outage_ms = 0
        self.report_every_s = 5
        self.state = PlannerState()
        self.plan: Plan | None = None
        self.plans: list[Plan] = []
        self.events: list[Event] = []
        self.seconds = 0
        self._reports: dict[str, ReceivedReport] = {}
        self._inflows: dict[str, list[tuple[float, float]]] = {}

    @property
    def now_ms(self) -> int:
        return NOW_MS + 1000 * self.seconds

    def run(self, seconds: int) -> World:
        for _ in range(seconds):
            self.tick()
        return self

    def run_probed(self, seconds: int, *probes: tuple[str, str, bool]) -> World:
        """The same, while replicas probe regions every five seconds: (replica, region, whether it answered)."""
        for second in range(seconds):
            if second % 5 == 0:
                self.probes = tuple(ProbeResult(name, region, self.now_ms, ok=ok) for name, region, ok in probes)
            self.tick()
        return self

    def tick(self) -> StepResult:
        self.seconds += 1
        observations = self.observations()
        if (self.seconds - 1) % self.report_every_s == 0:
            for name, site in self.sites.items():
                if site.reports:
                    report = site.report(self.seconds, float(self.report_every_s))
                    self._reports[name] = ReceivedReport(name, self.now_ms, report)
        observations = structs.replace(observations, reports=tuple(self._reports.values()))
        result = step(self.state, observations, self.policy, self.now_ms, term=1)
        self.outcomes, self.probes, self.outage_ms = (), (), 0
        self.state = result.state
        self.events.extend(result.events)
        if result.plan is not None:
            check_invariants(result.plan, self.policy)
            self.plan = result.plan
            self.plans.append(result.plan)
        return result

    def deployment(self, region: str) -> DeploymentPlan:
        assert self.plan is not None
        return next(d for d in self.plan.deployments if d.region == region)

    def table(self) -> RoutingTable:
        assert self.plan is not None
        return RoutingTable(self.plan, self.policy, KEYRING)

    def shares(self, tenant: str = "any") -> dict[str, float]:
        """Region → share of the route; `refused` too."""
        table = self.table()
        route = table.route(table.route_key(ask(tenant)))
        return {**dict.fromkeys(self.policy.regions, 0.0), **route.shares, "refused": route.refused}

    def observations(self) -> Observations:
        routes = []
        inflow = dict.fromkeys(self.sites, 0.0)
        for route, tokens in self.demand.items():
            pinned = self.pinned.get(route, {})
            decided = self._decided(route, tokens, pinned)
            for region, part in decided.items():
                inflow[region] += part
            routes.append(RouteDemand(route, 10, tokens, self._tokens(pinned), self._tokens(decided)))
        for name, tokens in inflow.items():
            # What an agent would report: the mean over its interval.
            site = self.sites[name]
            recent = self._inflows.setdefault(name, [])
            recent.append((tokens, site.pass_second(tokens)))
            del recent[: -self.report_every_s]
            site.inflow = sum(came for came, _ in recent) / len(recent)
            site.done = sum(went for _, went in recent) / len(recent)
        sample = DemandSample("replica", self.now_ms, 1000, tuple(routes))
        return Observations(
            reports=tuple(self._reports.values()),
            demand=(sample,),
            operators=self.operators,
            outcomes=self.outcomes,
            probes=self.probes,
            policy_version=1,
            outage_ms=self.outage_ms,
        )

    def _decided(self, route: RouteKey, tokens: float, pinned: dict[str, float]) -> dict[str, float]:
        """Tokens/s by region: new ones where the plan sends them, pinned ones where they are, less what is let go."""
        out: dict[str, float] = {}
        if self.plan is None:
            return out
        table = RoutingTable(self.plan, self.policy, KEYRING)
        if route.model in table.models:
            out = {region: tokens * share for region, share in table.route(route).shares.items()}
        for region, part in pinned.items():
            out[region] = out.get(region, 0.0) + part * (1 - self.deployment(region).release)
        return out

    def _tokens(self, parts: dict[str, float]) -> tuple[DeploymentTokens, ...]:
        return tuple(DeploymentTokens(region, self.sites[region].version, part) for region, part in parts.items())


def probed_eu() -> World:
    """Half a minute of two regions that report, with demand in `eu`, whose gateway has a probe."""
    regions = {
        "eu": Region("https://eu", ("EU",), probe=Probe("https://x", 5, 2, 2)),
        "us": Region("https://us", ("US",)),
    }
    return World(make_policy(regions), {"eu": Site(), "us": Site()}, {route_to(): 500.0}).run(30)
