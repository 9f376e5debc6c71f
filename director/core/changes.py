"""What an operator is told: the differences between two plans, with the figures that caused them."""

from __future__ import annotations

from collections.abc import Iterator

from director.core.events import Event
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.publish import pairs

SHED_NEWS = 0.05
"""Shedding less than this is in the plan, not in the news."""
SHED_JUMP = 0.10
"""While it sheds, a change of this much is news again."""


def events(last: Plan | None, plan: Plan, now_ms: int) -> tuple[Event, ...]:
    """Every change of state between two plans; the first plan is one event."""
    if last is None:
        return (Event("first_plan", now_ms, f"{len(plan.deployments)} deployments in {len(plan.regions)} regions"),)
    return (*_whole(last, plan, now_ms), *_regions(last, plan, now_ms), *_deployments(last, plan, now_ms))


def _whole(last: Plan, plan: Plan, now_ms: int) -> Iterator[Event]:
    if last.static != plan.static:
        why = (
            "more of a model's capacity fell silent at once than fails at once, and no probe confirms it"
            if plan.static
            else "reports arrive again"
        )
        yield Event("static", now_ms, why, before=_yes(last.static), after=_yes(plan.static))
    if last.policy != plan.policy:
        yield Event("policy_in_force", now_ms, f"policy {plan.policy}", before=str(last.policy), after=str(plan.policy))


def _regions(last: Plan, plan: Plan, now_ms: int) -> Iterator[Event]:
    known = {r.region: r for r in last.regions}
    for region in plan.regions:
        before = known.pop(region.region, RegionPlan(region.region, "unseen"))
        for kind, was, now, why in (
            ("freshness", before.freshness, region.freshness, _AGE[region.freshness]),
            ("health", before.health, region.health, "the region's own word"),
            ("gateway", before.gateway, region.gateway, "the region's word or our probes"),
        ):
            if was != now:
                yield Event(kind, now_ms, why, region.region, before=was, after=now)
    for gone in known:
        yield Event("region_gone", now_ms, "no longer in the policy", gone)


def _deployments(last: Plan, plan: Plan, now_ms: int) -> Iterator[Event]:
    both = pairs(last.deployments, plan.deployments)
    for before, d in both:
        if before is d:
            continue
        if before is None:
            yield _event("deployment_appeared", now_ms, f"{d.ready_replicas} replicas ready", d)
            continue
        if before.state != d.state:
            yield _event("state", now_ms, "the region's own word", d, before.state, d.state)
        if (before.ready_replicas > 0) != (d.ready_replicas > 0):
            yield _event("ready", now_ms, "replicas", d, str(before.ready_replicas), str(d.ready_replicas))
        if before.breaker != d.breaker:
            yield _event("breaker", now_ms, _breaker_why(d), d, before.breaker, d.breaker)
        if before.breaker_held_in != d.breaker_held_in and d.breaker_held_in:
            yield _event("breaker_held_in", now_ms, "too much of the model's capacity is out already", d)
        yield from _shedding(before, d, now_ms)
    if len(last.deployments) == len(both) and all(before is not None for before, _ in both):
        return
    here = {d.key for d in plan.deployments}
    for gone in last.deployments:
        if gone.key not in here:
            yield _event("deployment_gone", now_ms, "the region no longer lists it", gone)


def _shedding(before: DeploymentPlan, d: DeploymentPlan, now_ms: int) -> Iterator[Event]:
    was, is_ = 1.0 - before.admit_home, 1.0 - d.admit_home
    crossed = (was > SHED_NEWS) != (is_ > SHED_NEWS)
    if not crossed and abs(was - is_) < SHED_JUMP:
        return
    offered = d.offered_tokens_per_s + d.pinned_tokens_per_s
    load = f"{offered / d.capacity_tokens_per_s:.2f} × capacity" if d.capacity_tokens_per_s > 0 else "no capacity"
    yield _event("shedding", now_ms, f"sheds {is_:.0%}: offered {load}", d, f"{was:.0%}", f"{is_:.0%}")


_AGE = {
    "fresh": "its reports arrive",
    "stale": "its reports are late",
    "lost": "no report for too long",
    "unseen": "has never reported",
}


def _breaker_why(d: DeploymentPlan) -> str:
    if d.breaker == "open":
        return "too many failures"
    return "the open period ended" if d.breaker == "half_open" else "enough trials succeeded"


def _event(
    kind: str, now_ms: int, why: str, d: DeploymentPlan, before: str | None = None, after: str | None = None
) -> Event:
    return Event(kind, now_ms, why, d.region, d.model, d.version, before, after)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
