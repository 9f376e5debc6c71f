"""From a tick's figures to a plan: small, and the same as the last one unless something published changed."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from director.core.grain import grained
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.room import Room

ADMISSION_STEP = 0.005
"""Admissions that differ by less than half a percent are the same admission."""
RATIO_GRAIN = 10_000
"""Steps in which a fraction of new demand is published."""
TOKENS_STEP = 0.02
"""Offered, pinned and headroom are republished when they move by this part of the capacity."""


def with_admissions(
    last: Plan | None, deployments: Sequence[DeploymentPlan], rooms: Sequence[Room]
) -> list[DeploymentPlan]:
    """Each deployment's published inputs and its room's admissions: the last published ones, while the new ones differ
    only within the steps above.
    """
    before = pairs(last.deployments if last is not None else (), deployments)
    return [_published(known, d, room) for (known, d), room in zip(before, rooms, strict=True)]


def assemble(
    last: Plan | None,
    regions: tuple[RegionPlan, ...],
    deployments: Sequence[DeploymentPlan],
    models_served: tuple[str, ...],
    static: bool,
    policy_version: int,
    previous_epoch: int,
    term: int,
    now_ms: int,
) -> Plan | None:
    """The next plan, or None when nothing published differs from the last."""
    previous = max(previous_epoch, last.epoch if last is not None else 0)
    plan = Plan(
        epoch=max(previous + 1, now_ms // 1000),
        previous=previous,
        term=term,
        policy=policy_version,
        made_at_ms=now_ms,
        regions=regions,
        deployments=tuple(deployments),
        models_served=models_served,
        static=static,
    )
    return None if last is not None and plan.same_content(last) else plan


def _published(last: DeploymentPlan | None, deployment: DeploymentPlan, room: Room) -> DeploymentPlan:
    if last is None or not _close(last, room):
        return _with_admissions(deployment, room)
    kept = structs.replace(
        deployment,
        offered_tokens_per_s=last.offered_tokens_per_s,
        captive_tokens_per_s=last.captive_tokens_per_s,
        pinned_tokens_per_s=last.pinned_tokens_per_s,
        headroom_tokens_per_s=last.headroom_tokens_per_s,
        admit_captive=last.admit_captive,
        admit_home=last.admit_home,
        admit_overflow=last.admit_overflow,
        admit_relief=last.admit_relief,
        admit_overload=last.admit_overload,
        release=last.release,
    )
    return last if kept == last else _with_admissions(deployment, room)


def _with_admissions(deployment: DeploymentPlan, room: Room) -> DeploymentPlan:
    return structs.replace(
        deployment,
        offered_tokens_per_s=grained(room.offered, 10),
        captive_tokens_per_s=grained(room.captive, 10),
        pinned_tokens_per_s=grained(room.pinned, 10),
        headroom_tokens_per_s=grained(room.headroom, 10),
        admit_captive=grained(room.admit_captive, RATIO_GRAIN),
        admit_home=grained(room.admit_home, RATIO_GRAIN),
        admit_overflow=room.admit_overflow,
        admit_relief=room.admit_relief,
        admit_overload=room.admit_overload,
        release=grained(room.release, RATIO_GRAIN),
    )


def _close(last: DeploymentPlan, room: Room) -> bool:
    step = TOKENS_STEP * max(last.capacity_tokens_per_s, 1.0)
    return (
        abs(last.offered_tokens_per_s - room.offered) <= step
        and abs(last.captive_tokens_per_s - room.captive) <= step
        and abs(last.pinned_tokens_per_s - room.pinned) <= step
        and abs(last.headroom_tokens_per_s - room.headroom) <= step
        and _same_ratio(last.admit_captive, room.admit_captive)
        and _same_ratio(last.admit_home, room.admit_home)
        and _same_ratio(last.release, room.release)
        and _same_rounds(last.admit_overflow, room.admit_overflow)
        and _same_rounds(last.admit_relief, room.admit_relief)
        and _same_rounds(last.admit_overload, room.admit_overload)
    )


def _same_ratio(last: float, new: float) -> bool:
    """The ends are news: all and nothing are published exactly."""
    if last == new:
        return True
    new = grained(new, RATIO_GRAIN)
    if (last in (0.0, 1.0)) != (new in (0.0, 1.0)):
        return False
    return abs(last - new) <= ADMISSION_STEP


def _same_rounds(last: tuple[float, ...], new: tuple[float, ...]) -> bool:
    return last == new or (len(last) == len(new) and all(_same_ratio(a, b) for a, b in zip(last, new, strict=True)))


def pairs(
    last: Sequence[DeploymentPlan], new: Sequence[DeploymentPlan]
) -> list[tuple[DeploymentPlan | None, DeploymentPlan]]:
    """Each new deployment with what it was before. As a rule the same ones stand in the same places."""
    if len(last) == len(new) and all(map(_same_place, last, new)):
        return list(zip(last, new, strict=True))
    known = {d.key: d for d in last}
    return [(known.get(d.key), d) for d in new]


def _same_place(a: DeploymentPlan, b: DeploymentPlan) -> bool:
    return a.region == b.region and a.model == b.model and a.version == b.version
