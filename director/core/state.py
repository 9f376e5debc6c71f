"""The planner's memory: averages, counters, breakers, trims. One row that each tick overwrites; never served from.

Apart from the plan from the first day: what wobbles is here, what is published is there. Encoded compactly (arrays),
since it is written every second; new fields join at the end, with a default.
"""

from __future__ import annotations

from msgspec import Struct

from director.core.breaker import BreakerMemory
from director.core.capacity import Mix
from director.core.curve import Curve
from director.core.deadband import Tracker
from director.core.filling import UNKNOWN, Filling
from director.core.observations import DemandSample
from director.core.plan import DeploymentKey, Freshness, Plan
from director.core.report import DeploymentReport, Health
from director.core.request import RouteKey


class ProbeMemory(Struct, frozen=True, array_like=True, gc=False):
    """One replica's view of a region's gateway."""

    replica: str
    at_ms: int
    failures_in_a_row: int = 0


class RegionMemory(Struct, frozen=True, array_like=True, gc=False):
    region: str
    freshness: Freshness = "unseen"
    received_at_ms: int = 0
    """Of the newest report, moved on by any outage of the database."""
    boot_id: str = ""
    sequence: int = -1
    interval_s: float = 5.0
    health: Health = "ok"
    gateway: Health = "ok"
    probes: tuple[ProbeMemory, ...] = ()


class DeploymentMemory(Struct, frozen=True, array_like=True, gc=False):
    key: DeploymentKey
    report: DeploymentReport
    """What the region last said of it."""
    reported_at_ms: int = 0
    rate_per_slot: Tracker = Tracker()
    """Tokens/s per slot at the home target."""
    curve: Curve = Curve()
    service_ms: Tracker = Tracker()
    error_ratio: float = 0.0
    throttled_ratio: float = 0.0
    quality: float = 1.0
    """Published: moves in steps of `QUALITY_STEP`."""
    retry_after_ms: int = 0
    arrived_tokens: float = 0.0
    """Smoothed with the same window as `decided_tokens`: their ratio is κ."""
    decided_tokens: float = 0.0
    decided_since_report: float = 0.0
    kappa: float = 1.0
    """Arrivals that the region reports ÷ tokens decided into it; published past its deadband."""
    background: Tracker = Tracker()
    """Arrivals that no decision of ours explains, tokens/s."""
    pinned: Tracker = Tracker()
    trim: float = 1.0
    trim_published: float = 1.0
    utilisation: float | None = None
    capacity_well: float = 0.0
    admit_home: float = 1.0
    """After pace."""
    guest_gate: float = 1.0
    """Slow start for guests: 0 when they were last forbidden, rising at `recovery_per_s`."""
    breaker: BreakerMemory = BreakerMemory()
    counted_s: float = 0.0
    """How long arrivals and decisions have been compared."""
    mix: Mix = Mix()
    decided_fast: float = 0.0
    arrivals: Tracker = Tracker()
    """Arrivals that the region reports, tokens/s: a step in them is demand when decisions are steady."""
    limited_s: float = 0.0
    """How long capacity has been what limits it."""
    ratio_last: float = -1.0
    """Arrivals ÷ decisions of the newest span, ÷ κ; below 0: none yet."""
    ratio_noise: float = 0.0
    """Variance of that, from successive differences: what κ's deadband is made of."""
    filling: Filling = UNKNOWN
    """Its slots in use by now: what reports said, moved on by what was sent since."""
    foreseen_since_report: float = 0.0
    """As `decided_since_report`, by the shares of each decision instead of its pick."""

    @property
    def region(self) -> str:
        return self.key[0]

    @property
    def model(self) -> str:
        return self.key[1]

    @property
    def version(self) -> str:
        return self.key[2]


class RouteMemory(Struct, frozen=True, array_like=True, gc=False):
    """A route's demand that could go anywhere its policy allows, in the replicas' estimated tokens/s."""

    route: RouteKey
    new: Tracker = Tracker()
    quiet_s: float = 0.0


class PlannerState(Struct, frozen=True, array_like=True, gc=False):
    schema: int = 1
    now_ms: int = 0
    regions: tuple[RegionMemory, ...] = ()
    deployments: tuple[DeploymentMemory, ...] = ()
    routes: tuple[RouteMemory, ...] = ()
    last_samples: tuple[DemandSample, ...] = ()
    """Each replica's newest: a late row is bridged by the one before."""
    models_served: tuple[str, ...] = ()
    plan: Plan | None = None
    """The last that was published."""
    first_ms: int = 0
    """When the planner first stepped, ever."""
