"""Values for the store's tests, whole and valid, and a wait with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from director.core.events import Event
from director.core.plan import Plan, RegionPlan
from director.core.policy import Model, Objective, Policy, Region, Residency, Tenant
from director.core.report import DeploymentReport, Replicas, Report


def report(
    sequence: int,
    *,
    boot_id: str = "boot-a",
    served: tuple[tuple[str, str], ...] = (("llama", "1"),),
    ready: int = 2,
) -> Report:
    """A report that serves the given (model, version) pairs."""
    deployments = tuple(DeploymentReport(model, version, Replicas(ready, 2)) for model, version in served)
    return Report(
        schema=1,
        boot_id=boot_id,
        sequence=sequence,
        observed_at="2026-11-30T20:51:07Z",
        interval_s=5.0,
        deployments=deployments,
    )


def plan(epoch: int, previous: int, *, term: int = 1, region: str = "eu-west-1", policy: int = 1) -> Plan:
    """A plan that publishes one region."""
    return Plan(
        epoch=epoch,
        previous=previous,
        term=term,
        policy=policy,
        made_at_ms=epoch * 1000,
        regions=(RegionPlan(region=region, freshness="fresh"),),
        deployments=(),
    )


def policy(region: str = "eu-west-1") -> Policy:
    """A policy with one of everything."""
    return Policy(
        jurisdictions=("EU",),
        regions={region: Region(endpoint=f"https://{region}.example.net", jurisdictions=("EU",))},
        models={"llama": Model(objective="interactive")},
        tenants={"acme": Tenant(residency=Residency(allow=("EU",)))},
        objectives={"interactive": Objective()},
    )


def event(why: str, *, kind: str = "shed", region: str | None = "eu-west-1", at_ms: int = 1_000) -> Event:
    """A planner's event."""
    return Event(kind=kind, at_ms=at_ms, why=why, region=region)


async def until(holds: Callable[[], Awaitable[bool]], deadline_s: float = 15.0) -> None:
    """Ask again and again until it holds; fail after the deadline."""
    end_s = time.monotonic() + deadline_s
    while not await holds():
        assert time.monotonic() < end_s, "it never came to hold"
        await asyncio.sleep(0.01)
