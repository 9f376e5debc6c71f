"""What filters look at: one candidate, and the route it is a candidate for."""

from __future__ import annotations

from msgspec import Struct

from director.core.plan import DeploymentPlan, RegionPlan
from director.core.policy import Objective, Region, Tenant


class Candidate(Struct, frozen=True):
    """One model version in one region; `deployment` is None where the region serves no version of the model."""

    region: str
    policy: Region | None
    """None where only state filters are asked."""
    observed: RegionPlan
    deployment: DeploymentPlan | None
    rtt_ms: float


class RouteContext(Struct, frozen=True):
    """A route's rules, resolved from the policy."""

    tenant: Tenant
    residency: tuple[str, ...]
    model: str
    version: str
    adapter: str | None
    objective: Objective
    zone_known: bool
    """False for clients in no zone: their round trips are a guess, and nothing is too far."""
