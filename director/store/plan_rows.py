"""How a plan becomes a row, compactly: whole, or as what differs from an earlier whole one.

Problem: a plan changes in a few deployments at a time, every second at worst, and a week of them is kept.
Mechanism: a row is a *base* (the whole plan) or a *change* (its head, and the regions and deployments that differ from
those at the same place in its base). A change names one base and never another change, so reading takes two rows, and
one for whoever remembers the base. A plan is stored whole when the numbers of its parts differ from the base's, when
the change would not be much smaller, or when the base is old, so that retention can let it go.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, structs

from director.core.plan import DeploymentPlan, Plan, RegionPlan

CHANGED_SHARE_MAX = 0.5
"""Beyond this share of changed parts a whole plan costs little more, and spares readers the base."""
BASE_MS_MAX = 3_600_000
"""A base is at most this much older than its changes; ms."""

_plan_decoder = msgspec.json.Decoder(Plan)


class Change(Struct, frozen=True, array_like=True):
    """A plan without what it shares with its base; positions are those in the base."""

    head: Plan
    regions: tuple[tuple[int, RegionPlan], ...]
    deployments: tuple[tuple[int, DeploymentPlan], ...]


_change_decoder = msgspec.json.Decoder(Change)


def encode(plan: Plan, base: Plan | None) -> tuple[str, int | None]:
    """The content of the row, and the epoch of its base: None for a whole plan."""
    change = None if base is None else _change(plan, base)
    if change is None or base is None:
        return msgspec.json.encode(plan).decode(), None
    return msgspec.json.encode(change).decode(), base.epoch


def decode_whole(content: str) -> Plan:
    """A plan from a base's content."""
    return _plan_decoder.decode(content)


def decode_change(content: str, base: Plan) -> Plan:
    """A plan from a change's content and its base."""
    change = _change_decoder.decode(content)
    regions, deployments = list(base.regions), list(base.deployments)
    for position, region in change.regions:
        regions[position] = region
    for position, deployment in change.deployments:
        deployments[position] = deployment
    return structs.replace(change.head, regions=tuple(regions), deployments=tuple(deployments))


def _change(plan: Plan, base: Plan) -> Change | None:
    """What differs; None where the plan is better stored whole."""
    if len(plan.regions) != len(base.regions) or len(plan.deployments) != len(base.deployments):
        return None
    if plan.made_at_ms - base.made_at_ms > BASE_MS_MAX:
        return None
    regions = tuple((i, new) for i, (new, old) in enumerate(zip(plan.regions, base.regions, strict=True)) if new != old)
    deployments = tuple(
        (i, new) for i, (new, old) in enumerate(zip(plan.deployments, base.deployments, strict=True)) if new != old
    )
    parts = len(plan.regions) + len(plan.deployments)
    if len(regions) + len(deployments) > parts * CHANGED_SHARE_MAX:
        return None
    return Change(structs.replace(plan, regions=(), deployments=()), regions, deployments)
