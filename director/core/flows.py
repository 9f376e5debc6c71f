"""Lining up a tick's admissions: a room for each deployment, a flow for each route that has demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from director.core.admission import Flow, Room
from director.core.candidates import Judged, PlanIndex, judge, objective
from director.core.plan import DeploymentKey, DeploymentPlan, RegionPlan
from director.core.policy import Policy
from director.core.request import RouteKey
from director.core.rounds import Entrant
from director.core.route import enter
from director.core.state import DeploymentMemory, RouteMemory

DEMAND_MIN_TOKENS_PER_S = 0.01
"""A route below this is not worth a flow."""


class Memo:
    """Judged routes of the last tick, by model: valid while the policy, the regions and the model's inputs are equal.

    It saves work and changes nothing: a step with an empty memo gives the same bytes.
    """

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._regions: tuple[RegionPlan, ...] = ()
        self._models: dict[str, tuple[DeploymentPlan, ...]] = {}
        self._judged: dict[str, dict[RouteKey, tuple[tuple[Judged, ...], list[Entrant], bool]]] = {}

    def refresh(
        self, policy: Policy, regions: tuple[RegionPlan, ...], by_model: Mapping[str, list[DeploymentPlan]]
    ) -> None:
        """Forget what no longer holds."""
        if policy is not self._policy or regions != self._regions:
            self._policy, self._regions = policy, regions
            self._models.clear()
            self._judged.clear()
        for model, deployments in by_model.items():
            inputs = tuple(deployments)
            if self._models.get(model) != inputs:
                self._models[model] = inputs
                self._judged[model] = {}

    def entrants(
        self, policy: Policy, index: PlanIndex, key: RouteKey
    ) -> tuple[tuple[Judged, ...], list[Entrant], bool]:
        """A route's candidates and fresh entrants for them."""
        known = self._judged.setdefault(key.model, {})
        found = known.get(key)
        if found is None:
            judged = tuple(judge(policy, index, key))
            lined_up, captive = enter(judged, index, objective(policy, key).spread_ms)
            found = known[key] = (judged, lined_up, captive)
        judged, lined_up, captive = found
        return judged, [structs.replace(e) for e in lined_up], captive


def rooms(
    memories: Sequence[DeploymentMemory],
    deployments: Sequence[DeploymentPlan],
    regions: Mapping[str, RegionPlan],
    policy: Policy,
    static: bool,
    dt_s: float,
) -> dict[DeploymentKey, Room]:
    """One room a deployment. Under static every region is equally unknown, so staleness forbids nobody guests."""
    out = {}
    for memory, deployment in zip(memories, deployments, strict=True):
        region = regions[memory.region]
        half_open = memory.breaker.state == "half_open"
        out[memory.key] = Room(
            key=memory.key,
            capacity=deployment.capacity_tokens_per_s * deployment.trim,
            usable=usable(deployment, region),
            fresh=region.freshness == "fresh" or static,
            trial_ratio=policy.breaker.trial_ratio if half_open else None,
            pinned=memory.pinned.published * memory.kappa + memory.background.published,
            kappa=memory.kappa,
            admit_home_before=memory.admit_home,
            guest_gate=memory.guest_gate,
            admit_rise_max=policy.planner.recovery_per_s * dt_s,
        )
    return out


def usable(deployment: DeploymentPlan, region: RegionPlan) -> bool:
    """Whether any route may send new sessions there: the filters that look at neither tenant nor request."""
    return (
        region.freshness in ("fresh", "stale")
        and region.operator is None
        and region.health != "down"
        and region.gateway != "down"
        and deployment.state == "serving"
        and deployment.ready_replicas > 0
        and deployment.breaker != "open"
    )


def flows(
    routes: Sequence[RouteMemory],
    here: Mapping[DeploymentKey, Room],
    deployments: Sequence[DeploymentPlan],
    regions: tuple[RegionPlan, ...],
    policy: Policy,
    memo: Memo,
) -> list[Flow]:
    """One flow for each route with demand that the policy still knows."""
    index = PlanIndex(policy, regions, deployments)
    memo.refresh(
        policy, regions, {m: [d for ds in by_region.values() for d in ds] for m, by_region in index.by_model.items()}
    )
    out = []
    for memory in routes:
        key, demand = memory.route, memory.new.published
        if demand < DEMAND_MIN_TOKENS_PER_S or key.tenant not in policy.tenants or key.model not in policy.models:
            continue
        judged, entrants, captive = memo.entrants(policy, index, key)
        out.append(
            Flow(
                demand=demand,
                spread_ms=objective(policy, key).spread_ms,
                captive=captive,
                share_overload=policy.tenants[key.tenant].on_overload == "share",
                entrants=entrants,
                rooms=[here[j.deployment.key] if j.deployment is not None else None for j in judged],
            )
        )
    return out
