"""Who is near whom: a model's deployments in order of nearness, shared by every route that ranks them alike.

A route differs from its neighbours mostly by what it may use, not by how far things are. So nearness is worked out once
for each (model, client zone, objective, adapter), and a route only picks its own from that order: its reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from director.core.candidates import context, objective
from director.core.filters import (
    BY_RULE,
    Candidate,
    RouteContext,
    availability,
    distance,
    operators,
    takes_new_sessions,
)
from director.core.geo import RoundTrips
from director.core.nearness import nearness
from director.core.plan import DeploymentPlan, RegionPlan
from director.core.policy import Policy
from director.core.request import RouteKey

RANKINGS_MAX = 50_000
"""Adapters come from requests: a bound, so that made-up ones fill no memory."""


RankedBy = tuple[str, str, str | None]
"""Client zone, objective, adapter."""


class Reach:
    """A route's lasting candidates, nearest first: positions in the model's deployments, and how near they are."""

    __slots__ = ("near_ms", "order", "stamp")

    def __init__(self, order: tuple[int, ...], near_ms: tuple[float, ...], stamp: object) -> None:
        self.order = order
        self.near_ms = near_ms
        self.stamp = stamp


class ModelIndex:
    """One model's deployments, with what holds for every route alike."""

    __slots__ = (
        "_eligible",
        "_regions",
        "_signature",
        "deployments",
        "lasting",
        "rankings",
        "reaches",
        "share_max",
        "stamp",
        "versions",
    )

    def __init__(
        self, deployments: Sequence[DeploymentPlan], regions: dict[str, RegionPlan], previous: ModelIndex | None
    ) -> None:
        self.deployments = tuple(deployments)
        self._regions = regions
        self._eligible: tuple[bool, ...] | None = None
        down = {name for name, r in regions.items() if operators.reject_down(Candidate(name, None, r, None, 0.0), None)}
        self.lasting = tuple([d.region not in down for d in self.deployments])
        self.share_max = self._caps(regions)
        self.versions = frozenset(d.version for d in self.deployments)
        self._signature = (
            tuple([(d.region, d.version, d.service_ms, d.adapters_loaded, d.adapters_loadable) for d in deployments]),
            self.lasting,
        )
        same = previous is not None and previous._signature == self._signature
        self.stamp: object = previous.stamp if same and previous is not None else object()
        self.rankings: dict[RankedBy, list[tuple[float, int]]] = (
            previous.rankings if same and previous is not None else {}
        )
        self.reaches: dict[tuple[RankedBy, str, frozenset[str]], Reach] = (
            previous.reaches if same and previous is not None else {}
        )
        """By version and permitted regions: routes that differ in nothing else share one."""

    @property
    def eligible(self) -> tuple[bool, ...]:
        """Which may take new sessions, whatever the route. Worked out when first asked: the planner never does."""
        if self._eligible is None:
            self._eligible = tuple([takes_new_sessions(self._regions[d.region], d) for d in self.deployments])
        return self._eligible

    def _caps(self, regions: dict[str, RegionPlan]) -> tuple[float, ...]:
        """An operator's cap for each deployment; versions in one region share the region's."""
        if all(region.share_cap is None for region in regions.values()):
            return (1.0,) * len(self.deployments)
        count: dict[str, int] = {}
        for d, usable in zip(self.deployments, self.eligible, strict=True):
            count[d.region] = count.get(d.region, 0) + usable
        caps = []
        for d in self.deployments:
            cap = regions[d.region].share_cap
            caps.append(1.0 if cap is None else cap / max(1, count[d.region]))
        return tuple(caps)


class PlanIndex:
    """A plan by region and by model. From the previous one it takes over whatever still holds: that saves work only."""

    __slots__ = ("_allowed", "models", "policy", "regions", "trips")

    def __init__(
        self,
        policy: Policy,
        regions: Iterable[RegionPlan],
        deployments: Iterable[DeploymentPlan],
        previous: PlanIndex | None = None,
    ) -> None:
        self.policy: Policy = policy
        if previous is not None and previous.policy is not policy:
            previous = None
        self.regions: dict[str, RegionPlan] = {region.region: region for region in regions}
        self.trips: RoundTrips = previous.trips if previous is not None else RoundTrips(policy)
        self._allowed: dict[tuple[str, tuple[str, ...]], frozenset[str]] = (
            previous._allowed if previous is not None else {}
        )
        by_model: dict[str, list[DeploymentPlan]] = {}
        for deployment in deployments:
            if deployment.region in policy.regions:
                by_model.setdefault(deployment.model, []).append(deployment)
        known = previous.models if previous is not None else {}
        self.models: dict[str, ModelIndex] = {
            m: ModelIndex(ds, self.regions, known.get(m)) for m, ds in by_model.items()
        }

    def reach(self, key: RouteKey, known: Reach | None = None) -> Reach:
        """The lasting candidates of a route, nearest first; `known` itself where it still holds."""
        model = self.models.get(key.model)
        if model is None:
            return Reach((), (), None)
        if known is not None and known.stamp is model.stamp:
            return known
        name = self.policy.tenants[key.tenant].objective or self.policy.models[key.model].objective
        ranked_by, permitted = (key.client_zone, name, key.adapter), self._permitted(key)
        found = model.reaches.get((ranked_by, key.version, permitted))
        if found is None:
            if len(model.reaches) >= RANKINGS_MAX:
                model.reaches.clear()
            found = model.reaches[ranked_by, key.version, permitted] = self._chosen(model, key, ranked_by, permitted)
        return found

    def _chosen(self, model: ModelIndex, key: RouteKey, ranked_by: RankedBy, permitted: frozenset[str]) -> Reach:
        """Those of the ranking that the route may use."""
        ranking = self._ranking(model, key, ranked_by)
        if key.version == "*":
            chosen = [
                pair for pair in ranking if model.deployments[pair[1]].region in permitted and model.lasting[pair[1]]
            ]
        else:
            versions = {v for v in model.versions if availability.version_matches(v, key.version)}
            chosen = [
                pair
                for pair in ranking
                if model.deployments[pair[1]].region in permitted
                and model.lasting[pair[1]]
                and model.deployments[pair[1]].version in versions
            ]
        return Reach(tuple([i for _, i in chosen]), tuple([near for near, _ in chosen]), model.stamp)

    def _permitted(self, key: RouteKey) -> frozenset[str]:
        """Regions that the tenant and the request allow: the rule filters, asked once for each rule."""
        rule = (key.tenant, key.residency)
        found = self._allowed.get(rule)
        if found is None:
            if len(self._allowed) >= RANKINGS_MAX:
                self._allowed.clear()
            route = context(self.policy, key)
            found = frozenset(name for name in self.policy.regions if self._rule_permits(name, route))
            self._allowed[rule] = found
        return found

    def _rule_permits(self, name: str, route: RouteContext) -> bool:
        observed = self.regions.get(name) or RegionPlan(name, "unseen")
        candidate = Candidate(name, self.policy.regions[name], observed, None, 0.0)
        return all(reject(candidate, route) is None for reject in BY_RULE)

    def _ranking(self, model: ModelIndex, key: RouteKey, ranked_by: RankedBy) -> list[tuple[float, int]]:
        """(near_ms, position) of the deployments within reach of this zone, with the adapter at hand, nearest first."""
        found = model.rankings.get(ranked_by)
        if found is None:
            if len(model.rankings) >= RANKINGS_MAX:
                model.rankings.clear()
            found = model.rankings[ranked_by] = self._rank(model, key)
        return found

    def _rank(self, model: ModelIndex, key: RouteKey) -> list[tuple[float, int]]:
        policy, wanted = self.policy, objective(self.policy, key)
        route = context(policy, key)
        trips = {name: self.trips.ms(key.client_zone, name) for name in policy.regions}
        ranked = []
        for i, d in enumerate(model.deployments):
            rtt = trips[d.region]
            if distance.is_too_far(rtt[0], route) or not availability.adapter_at_hand(d, key.adapter):
                continue
            near = nearness(policy, policy.models[key.model], wanted, key.client_zone, key.adapter, d, rtt)
            ranked.append((near.near_ms, i))
        ranked.sort()
        return ranked
