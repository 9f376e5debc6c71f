"""A route's candidates, judged: each deployment of the model in each region, with its rejection or its nearness.

Regions that serve no version of the model are candidates without a deployment, so that a refusal and an explanation
name every region of the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from director.core.decision import Rejection
from director.core.filters import Candidate, RouteContext, first_rejection
from director.core.geo import RoundTrips
from director.core.nearness import Nearness, RttSource, nearness
from director.core.plan import DeploymentPlan, Freshness, RegionPlan
from director.core.policy import DEFAULT_ZONE, Objective, Policy
from director.core.request import RouteKey

UNSEEN: Freshness = "unseen"


class Judged(Struct, frozen=True):
    """One candidate after the filters. `lasting`: it keeps its home share, whatever it admits."""

    region: str
    deployment: DeploymentPlan | None
    rejection: Rejection | None
    rtt_ms: float
    rtt_source: RttSource
    nearness: Nearness | None
    """None where there is no deployment to be near to."""

    @property
    def eligible(self) -> bool:
        return self.rejection is None

    @property
    def lasting(self) -> bool:
        return self.deployment is not None and (self.rejection is None or not self.rejection.permanent)


def context(policy: Policy, key: RouteKey) -> RouteContext:
    """Resolve a route's rules. The tenant and the model exist: `decide` asked before."""
    tenant = policy.tenants[key.tenant]
    return RouteContext(
        tenant=tenant,
        residency=key.residency,
        model=key.model,
        version=key.version,
        adapter=key.adapter,
        objective=objective(policy, key),
        zone_known=key.client_zone != DEFAULT_ZONE and key.client_zone in policy.client_zones,
    )


def objective(policy: Policy, key: RouteKey) -> Objective:
    return policy.objectives[policy.tenants[key.tenant].objective or policy.models[key.model].objective]


def judge(
    policy: Policy,
    trips: RoundTrips,
    regions: Mapping[str, RegionPlan],
    deployments: Iterable[DeploymentPlan],
    key: RouteKey,
) -> list[Judged]:
    """Every candidate of a route, in the policy's order of regions and the plan's order of versions.

    `deployments`: those of the route's model. This is the long way, for refusals and explanations; `ranking` is the
    short one, and a property test holds the two together.
    """
    route = context(policy, key)
    here: dict[str, list[DeploymentPlan]] = {}
    for deployment in deployments:
        here.setdefault(deployment.region, []).append(deployment)
    judged: list[Judged] = []
    for name, region in policy.regions.items():
        observed = regions.get(name) or RegionPlan(region=name, freshness=UNSEEN)
        rtt = trips.ms(key.client_zone, name)
        for one in here.get(name, (None,)):
            candidate = Candidate(name, region, observed, one, rtt[0])
            judged.append(_judge_one(policy, key, route, candidate, rtt))
    return judged


def _judge_one(
    policy: Policy, key: RouteKey, route: RouteContext, candidate: Candidate, rtt: tuple[float, RttSource]
) -> Judged:
    rejection = first_rejection(candidate, route)
    deployment = candidate.deployment
    near = (
        nearness(policy, policy.models[key.model], route.objective, key.client_zone, key.adapter, deployment, rtt)
        if deployment is not None
        else None
    )
    return Judged(candidate.region, deployment, rejection, rtt[0], rtt[1], near)
