"""The routing table: what a replica compiles from a plan and a policy, and serves from until the next.

One reference swaps it. Routes in use are compiled before the swap; a new route is compiled on first use; the table is
bounded, and forgets the route that was compiled longest ago.
"""

from __future__ import annotations

from director.core.affinity import KeyRing
from director.core.plan import Plan
from director.core.policy import Policy, Tenant
from director.core.ranking import PlanIndex
from director.core.request import Request, RouteKey
from director.core.route import CompiledRoute


class RoutingTable:
    """A plan, its policy, and the routes compiled from the pair."""

    __slots__ = ("_routes", "index", "keyring", "models", "plan", "policy", "routes_max", "tenant_class")

    def __init__(
        self,
        plan: Plan,
        policy: Policy,
        keyring: KeyRing,
        *,
        previous: RoutingTable | None = None,
        routes_max: int = 10_000,
    ) -> None:
        self.plan = plan
        self.policy = policy
        self.keyring = keyring
        self.routes_max = routes_max
        self.index: PlanIndex = PlanIndex(
            policy, plan.regions, plan.deployments, previous.index if previous is not None else None
        )
        self.models = frozenset(plan.models_served) & frozenset(policy.models)
        self.tenant_class = tenant_classes(policy)
        self._routes: dict[RouteKey, CompiledRoute] = {}
        if previous is not None:
            self._carry_over(previous)

    def route_key(self, request: Request) -> RouteKey:
        """The route of a request whose tenant and model exist. Equal routes have equal keys."""
        residency = request.residency
        return RouteKey(
            self.tenant_class[request.tenant],
            tuple(sorted(set(residency))) if residency else (),
            request.model,
            request.version or self.policy.models[request.model].version,
            request.adapter,
            request.client_zone,
        )

    def route(self, key: RouteKey) -> CompiledRoute:
        """The compiled route, compiled on first use."""
        found = self._routes.get(key)
        if found is None:
            if len(self._routes) >= self.routes_max:
                del self._routes[next(iter(self._routes))]
            found = self._routes[key] = CompiledRoute(key, self.index)
        found.used = True
        return found

    def routes(self) -> tuple[CompiledRoute, ...]:
        return tuple(self._routes.values())

    def _carry_over(self, previous: RoutingTable) -> None:
        """Compile what was in use, so that the first requests after a swap do not wait for it.

        Only where a candidate's inputs changed: most plans move one model, and the other models' routes go on as they
        are, with their prepared answers.
        """
        unchanged = self._unchanged_models(previous)
        for key, old in tuple(previous._routes.items()):
            known = key.tenant in self.policy.tenants and key.model in self.models
            if not old.used or not known or self.tenant_class[key.tenant] != key.tenant:
                continue
            if key.model in unchanged:
                old.adopt(self.index)
                self._routes[key] = old
            else:
                self._routes[key] = CompiledRoute(key, self.index, old)

    def _unchanged_models(self, previous: RoutingTable) -> frozenset[str]:
        """Models of which nothing that an answer depends on differs from the previous table."""
        before, after = previous.index, self.index
        if self.policy is not previous.policy or self.keyring != previous.keyring or before.regions != after.regions:
            return frozenset()
        return frozenset(
            name
            for name, model in after.models.items()
            if name in before.models and before.models[name].deployments == model.deployments
        )


def tenant_classes(policy: Policy) -> dict[str, str]:
    """tenant → the first tenant, by name, with the very same rules: they share their routes."""
    first: dict[tuple[object, ...], str] = {}
    return {name: first.setdefault(_rules(policy.tenants[name]), name) for name in sorted(policy.tenants)}


def _rules(tenant: Tenant) -> tuple[object, ...]:
    rule = tenant.residency
    return (
        rule.anywhere,
        tuple(sorted(rule.allow)),
        tuple(sorted(rule.forbid)),
        tuple(sorted(tenant.deny_regions)),
        tenant.on_overload,
        tenant.objective,
    )
