"""Admission: how much of what is offered each deployment takes, from demand and capacity, without delay.

Utilisation, seen seconds late, is a poor thing to steer by: a ramp on it rings. Demand is known at once, so the
planner computes what fits (feed-forward), and only a slow trim looks at utilisation.

    budget          home_target · capacity · trim
    pinned          sessions that stay; above the budget, the fraction 1 - budget ÷ pinned is let go
    admit_captive   (budget - pinned) ÷ captive
    admit_home      (budget - pinned - captive) ÷ (offered - captive)
    headroom        overflow_target · capacity · trim - pinned - offered; closed while admit_home < 1
    relief          home_target · capacity - taken: what slow start or the guests' lower target still holds back, and
                    empty slots on top (`filling`); no bound where capacity is a guess and slots stand empty
    overload        to overload_ceiling · capacity · trim, for what nobody else takes

The rounds of overflow, relief and overload run over all of a model's routes at once here, and publish a fraction per
round, which is what makes every replica's shares add up to what was foreseen. See `rounds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from director.core.policy import Planner
from director.core.room import Flow, Room
from director.core.settle import settle

FULL = 1.0 - 1e-9
FILL_S = 6.0
"""Slots that stand empty are filled within about this: a report and its interval, so that one is seen meanwhile."""


def admit(rooms: Iterable[Room], flows: Iterable[Flow], settings: Planner) -> None:
    """Fill in every room's admissions for the routes' demand: model by model, for none touches another's rooms."""
    seats: dict[str, list[Room]] = {}
    for room in rooms:
        seats.setdefault(room.key.model, []).append(room)
    wanting: dict[str, list[Flow]] = {}
    for flow in flows:
        if flow.rooms:
            wanting.setdefault(flow.rooms[0].key.model, []).append(flow)
    for model, seated in seats.items():
        _admit_model(seated, wanting.get(model, ()), settings)


def _admit_model(rooms: Sequence[Room], flows: Sequence[Flow], settings: Planner) -> None:
    for flow in flows:
        _offer_home(flow)
    for room in rooms:
        _admit_home(room, settings)
    for flow in flows:
        _take_home(flow)
    for room in rooms:
        _open_for_guests(room, settings)
        room.free = room.headroom
    settle(rooms, flows, "overflow")
    for flow in flows:
        _believe_fall(flow)
    for room in rooms:
        room.free = _relief(room, settings)
    settle(rooms, flows, "relief")
    for room in rooms:
        room.free = _to_ceiling(room, settings)
    sharing = [flow for flow in flows if flow.share_overload]
    for flow in sharing:
        flow.demand *= flow.share_overload
    settle(rooms, sharing, "overload")


def _offer_home(flow: Flow) -> None:
    for position, share in flow.lane.home_share.items():
        room = flow.rooms[position]
        offered = flow.demand * share * room.kappa
        room.offered += offered
        if flow.captive:
            room.captive += offered


def _admit_home(room: Room, settings: Planner) -> None:
    if not room.usable:
        room.release = 0.0
        room.admit_captive = room.admit_home_raw = room.admit_home = 0.0
        return
    budget = settings.home_target * room.capacity
    if room.pinned > budget:
        room.release = 1.0 - budget / room.pinned
    stays = room.pinned if room.pinned < budget else budget
    room.admit_captive = _ratio(budget - stays, room.captive)
    captive = room.captive * room.admit_captive
    room.admit_home_raw = _ratio(budget - stays - captive, room.offered - room.captive)
    climbed = room.admit_home_before + room.admit_rise_max
    room.admit_home = climbed if climbed < room.admit_home_raw else room.admit_home_raw
    if room.trial_ratio is not None:
        room.admit_captive = min(room.admit_captive, room.trial_ratio)
        room.admit_home = min(room.admit_home, room.trial_ratio)
    room.taken = stays


def _ratio(room: float, wanted: float) -> float:
    """The fraction of `wanted` that fits; all of nothing fits while there is room at all."""
    if room <= 0:
        return 0.0
    return 1.0 if wanted <= room else room / wanted


def _take_home(flow: Flow) -> None:
    for position in flow.lane.home_share:
        room = flow.rooms[position]
        if room.usable:
            took = flow.lane.take_home(
                position, room.admit_captive if flow.captive else room.admit_home, room.share_max
            )
            room.taken += flow.demand * took * room.kappa


def _open_for_guests(room: Room, settings: Planner) -> None:
    """Guests may use what residents leave below the overflow target; a shedding region takes none."""
    if not (room.usable and room.fresh) or room.trial_ratio is not None or room.admit_home < FULL:
        room.headroom = 0.0
        return
    free = settings.overflow_target * room.capacity - room.pinned - room.offered
    room.headroom = max(0.0, free) * room.guest_gate


def _believe_fall(flow: Flow) -> None:
    """Home and overflow wait for what is published; refusals and overload do not."""
    if flow.demand_now >= flow.demand:
        return
    over = flow.demand - flow.demand_now
    for stage in (flow.lane.home, flow.lane.overflow):
        for position, share in stage.items():
            room = flow.rooms[position]
            room.taken = max(0.0, room.taken - over * share * room.kappa)
    flow.demand = flow.demand_now


def _relief(room: Room, settings: Planner) -> float:
    """What slow start alone holds back, what is kept free for residents who do not come, and what slots that stand
    empty can hold for a while: given only when the alternative is a refusal or an overload.
    """
    if not (room.usable and room.fresh) or room.trial_ratio is not None:
        return 0.0
    target, capacity, filled = settings.home_target, room.capacity, room.filling
    if room.guessed and capacity > 0 and filled.known and filled.first < target:
        # Nobody ever measured it: that slots stood empty at the newest report says more than any guess.
        return inf
    # Whoever comes back knows why it is empty; whoever only takes no guests yet is warm.
    climbing = room.admit_home < room.admit_home_raw
    if 0.0 <= filled.now < target and not climbing:
        lives = room.life_s / FILL_S
        target += (target - filled.now) * (lives if lives > 1.0 else 1.0)
    free = target * capacity - room.taken
    return free if free > 0.0 else 0.0


def _to_ceiling(room: Room, settings: Planner) -> float:
    """Last resort: any usable region, stale ones too, up to the ceiling; never one on trial."""
    if not room.usable or room.trial_ratio is not None:
        return 0.0
    free = settings.overload_ceiling * room.capacity - room.taken
    return free if free > 0.0 else 0.0
