"""What a change would move: two routing tables compared, route by route.

For each route the shares are compared as they are served; what moves is half the sum of the differences, the refused
part included. Routes weigh as much as their demand does. `foresee` makes the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from director.core.filters.residency import permits
from director.core.policy import DEFAULT_ZONE, Policy
from director.core.request import RouteKey
from director.core.table import RoutingTable

MOVED_MIN = 1e-4
"""Below this a route counts as unchanged: rounding of shares."""
LISTED_MAX = 50


class RouteMove(Struct, frozen=True):
    """One route before and after. Shares are by region; what is missing to 1 is refused."""

    tenant: str
    model: str
    version: str
    adapter: str | None
    client_zone: str
    residency: tuple[str, ...]
    tokens: float
    """Demand in the time looked at; 0 where there was none."""
    moved: float
    before: dict[str, float]
    after: dict[str, float]
    refused_before: float
    refused_after: float


class RegionMove(Struct, frozen=True):
    """A region's share of all traffic, before and after."""

    region: str
    before: float
    after: float


class Moves(Struct, frozen=True):
    """What a change does, worst first."""

    moved_share: float
    """Of all traffic, 0..1."""
    weighed_by: str
    """`demand`, or `routes` where none was seen: then each counts alike."""
    routes_changed: int
    routes: tuple[RouteMove, ...]
    refused_more: tuple[RouteMove, ...]
    """Routes of which a greater part is refused."""
    residency_widened: dict[str, tuple[str, ...]]
    """tenant → regions that its rules forbade, and allow in the new policy."""
    residency_narrowed: dict[str, tuple[str, ...]]
    tenants_removed: tuple[str, ...]
    models_removed: tuple[str, ...]
    regions_removed: tuple[str, ...]
    regions: tuple[RegionMove, ...] = ()
    """Every region that has a share before or after; the greatest change first."""
    refused_before: float = 0.0
    """Of all traffic, the part that is refused."""
    refused_after: float = 0.0
    ahead_s: int = 0
    """How far ahead the planner was run for this; 0: what happens at once."""


def compare(old: RoutingTable, new: RoutingTable, demand: Mapping[RouteKey, float]) -> Moves:
    """`old` and `new` differ in policy, plan or both; `demand` is tokens by route, in names of the old policy.

    Both tables are the caller's own: every route there is gets compiled in them.
    """
    keys = dict.fromkeys(_every_route(old), 0.0) | dict(demand)
    found = [_move(old, new, key, tokens) for key, tokens in keys.items() if key.model in old.models]
    moves = sorted(found, key=lambda move: (-move.moved * max(move.tokens, 1e-9), -move.moved))
    total = sum(demand.values())
    weights = [move.tokens / total if total > 0 else 1 / len(moves) for move in moves]
    changed = [move for move in moves if move.moved > MOVED_MIN]
    widened, narrowed = _residency(old.policy, new.policy)
    return Moves(
        moved_share=round(sum(move.moved * weight for move, weight in zip(moves, weights, strict=True)), 6),
        weighed_by="demand" if total > 0 else "routes",
        routes_changed=len(changed),
        routes=tuple(changed[:LISTED_MAX]),
        refused_more=tuple(m for m in changed if m.refused_after > m.refused_before + MOVED_MIN)[:LISTED_MAX],
        residency_widened=widened,
        residency_narrowed=narrowed,
        tenants_removed=_gone(old.policy.tenants, new.policy.tenants),
        models_removed=_gone(old.policy.models, new.policy.models),
        regions_removed=_gone(old.policy.regions, new.policy.regions),
        regions=_regions(moves, weights),
        refused_before=_mean([move.refused_before for move in moves], weights),
        refused_after=_mean([move.refused_after for move in moves], weights),
    )


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return round(sum(value * weight for value, weight in zip(values, weights, strict=True)), 6)


def _regions(moves: Sequence[RouteMove], weights: Sequence[float]) -> tuple[RegionMove, ...]:
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for move, weight in zip(moves, weights, strict=True):
        for region, share in move.before.items():
            before[region] = before.get(region, 0.0) + share * weight
        for region, share in move.after.items():
            after[region] = after.get(region, 0.0) + share * weight
    rows = [
        RegionMove(region, round(before.get(region, 0.0), 6), round(after.get(region, 0.0), 6))
        for region in before.keys() | after.keys()
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.after - row.before), -row.before, row.region)))


def _every_route(table: RoutingTable) -> Iterable[RouteKey]:
    """A route for each set of tenant rules, each model and each client zone."""
    for tenant in sorted(set(table.tenant_class.values())):
        for model in sorted(table.models):
            for zone in (DEFAULT_ZONE, *table.policy.client_zones):
                yield RouteKey(tenant, (), model, table.policy.models[model].version, None, zone)


def _move(old: RoutingTable, new: RoutingTable, key: RouteKey, tokens: float) -> RouteMove:
    before, refused_before = _shares(old, key)
    after, refused_after = _shares(new, key)
    regions = before.keys() | after.keys()
    difference = sum(abs(before.get(one, 0.0) - after.get(one, 0.0)) for one in regions)
    return RouteMove(
        tenant=key.tenant,
        model=key.model,
        version=key.version,
        adapter=key.adapter,
        client_zone=key.client_zone,
        residency=key.residency,
        tokens=tokens,
        moved=min(1.0, (difference + abs(refused_before - refused_after)) / 2),
        before=before,
        after=after,
        refused_before=refused_before,
        refused_after=refused_after,
    )


def _shares(table: RoutingTable, key: RouteKey) -> tuple[dict[str, float], float]:
    """Shares by region, and the refused part. A tenant or model that is gone is refused whole."""
    if key.tenant not in table.tenant_class or key.model not in table.models:
        return {}, 1.0
    zone = key.client_zone if key.client_zone in table.policy.client_zones else DEFAULT_ZONE
    route = table.route(key._replace(tenant=table.tenant_class[key.tenant], client_zone=zone))
    return route.shares, round(max(0.0, 1.0 - sum(route.shares.values())), 6)


def _residency(old: Policy, new: Policy) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Regions that a tenant gains and loses by rules; a region that is new to the policy counts as gained."""
    widened: dict[str, tuple[str, ...]] = {}
    narrowed: dict[str, tuple[str, ...]] = {}
    for tenant in sorted(old.tenants.keys() & new.tenants.keys()):
        before, after = _permitted(old, tenant), _permitted(new, tenant)
        if after - before:
            widened[tenant] = tuple(sorted(after - before))
        if before - after:
            narrowed[tenant] = tuple(sorted(before - after))
    return widened, narrowed


def _permitted(policy: Policy, tenant: str) -> set[str]:
    rules = policy.tenants[tenant]
    return {
        name
        for name, region in policy.regions.items()
        if name not in rules.deny_regions and permits(rules.residency, region.jurisdictions)
    }


def _gone(old: Mapping[str, object], new: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(sorted(old.keys() - new.keys()))
