"""Admission: how much of what is offered each deployment takes, from demand and capacity, without delay.

Utilisation, seen seconds late, is a poor thing to steer by: a ramp on it rings. Demand is known at once, so the
planner computes what fits (feed-forward), and only a slow trim looks at utilisation.

    budget          home_target · capacity · trim
    pinned          sessions that stay; above the budget, the fraction 1 - budget ÷ pinned is let go
    admit_captive   (budget - pinned) ÷ captive
    admit_home      (budget - pinned - captive) ÷ (offered - captive)
    headroom        overflow_target · capacity · trim - pinned - offered; closed while admit_home < 1
    relief          the same for deployments that only slow start holds back
    overload        to overload_ceiling · capacity · trim, for what nobody else takes

The rounds of overflow, relief and overload run over all routes at once here, and publish a fraction per round, which
is what makes every replica's shares add up to what was foreseen. See `rounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from director.core.plan import DeploymentKey
from director.core.policy import Planner
from director.core.rounds import NOTHING, ROUNDS_MAX, Lane, Stage, leaves, offers

FULL = 1.0 - 1e-9


class Room(Struct):
    """One deployment while its admissions are worked out. Tokens/s, as the region counts them."""

    key: DeploymentKey
    capacity: float
    """Quality and trim included."""
    usable: bool
    """No filter that holds for everybody drops it."""
    fresh: bool
    trial_ratio: float | None
    """Half-open: the fraction it may take. None: closed."""
    pinned: float
    kappa: float
    admit_home_before: float
    """Where slow start climbs from."""
    guest_gate: float
    admit_rise_max: float
    capacity_well: float = 0.0
    capacity_now: float = 0.0
    """As published: without the trim."""
    share_max: float = 1.0
    """An operator's cap on any route."""
    offered: float = 0.0
    captive: float = 0.0
    taken: float = 0.0
    release: float = 0.0
    admit_captive: float = 1.0
    admit_home_raw: float = 1.0
    """Before pace."""
    admit_home: float = 1.0
    headroom: float = 0.0
    admit_overflow: tuple[float, ...] = ()
    admit_relief: tuple[float, ...] = ()
    admit_overload: tuple[float, ...] = ()


class Flow(Struct):
    """One route's demand on its way to somewhere. `rooms` stand by position in the lane, nearest first."""

    demand: float
    """New demand, estimated tokens/s."""
    captive: bool
    share_overload: bool
    lane: Lane
    rooms: list[Room]


def admit(rooms: Mapping[DeploymentKey, Room], flows: Sequence[Flow], settings: Planner) -> None:
    """Fill in every room's admissions for the routes' demand."""
    for flow in flows:
        _offer_home(flow)
    for room in rooms.values():
        _admit_home(room, settings)
    for flow in flows:
        _take_home(flow)
    for room in rooms.values():
        _open_for_guests(room, settings)
    _settle(rooms, flows, "overflow", {r.key: r.headroom for r in rooms.values() if r.headroom > 0})
    _settle(rooms, flows, "relief", _relief(rooms, settings))
    sharing = [flow for flow in flows if flow.share_overload]
    _settle(rooms, sharing, "overload", _to_ceiling(rooms, settings))


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
    stays = min(room.pinned, budget)
    room.admit_captive = _ratio(budget - stays, room.captive)
    captive = room.captive * room.admit_captive
    room.admit_home_raw = _ratio(budget - stays - captive, room.offered - room.captive)
    room.admit_home = min(room.admit_home_raw, room.admit_home_before + room.admit_rise_max)
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


def _relief(rooms: Mapping[DeploymentKey, Room], settings: Planner) -> dict[DeploymentKey, float]:
    """What slow start alone holds back: given only when the alternative is a refusal or an overload."""
    out = {}
    for room in rooms.values():
        if not (room.usable and room.fresh) or room.trial_ratio is not None:
            continue
        full = room.admit_home_raw >= FULL
        paced = room.admit_home < room.admit_home_raw or (full and room.guest_gate < 1.0)
        free = (settings.overflow_target if full else settings.home_target) * room.capacity - room.taken
        if paced and free > 0:
            out[room.key] = free
    return out


def _to_ceiling(rooms: Mapping[DeploymentKey, Room], settings: Planner) -> dict[DeploymentKey, float]:
    """Last resort: any usable region, stale ones too, up to the ceiling; never one on trial."""
    out = {}
    for room in rooms.values():
        free = settings.overload_ceiling * room.capacity - room.taken
        if room.usable and room.trial_ratio is None and free > 0:
            out[room.key] = free
    return out


def _settle(
    rooms: Mapping[DeploymentKey, Room], flows: Sequence[Flow], stage: Stage, free: dict[DeploymentKey, float]
) -> None:
    """Run one stage's rounds over all routes at once, and keep the fraction that each round's offers got."""
    ratios: dict[DeploymentKey, list[float]] = {key: [] for key in free}
    wanting = [_Wanting(flow, stage, free) for flow in flows if flow.lane.left > NOTHING]
    for number in range(ROUNDS_MAX):
        over_home = stage == "overload" and number == 0
        offered: dict[DeploymentKey, float] = {}
        for wants in wanting:
            wants.offer(offered, over_home)
        if not offered and not over_home:
            break
        for key, history in ratios.items():
            want = offered.get(key, 0.0)
            history.append(1.0 if want <= free[key] else max(0.0, free[key] / want))
        for wants in wanting:
            wants.take(number, ratios, free, over_home)
        wanting = [wants for wants in wanting if wants.flow.lane.left > NOTHING]
    for key, history in ratios.items():
        setattr(rooms[key], f"admit_{stage}", _shortened(history, open_still=free[key] > 0))


def _shortened(history: list[float], *, open_still: bool) -> tuple[float, ...]:
    """Fractions by round, where the last repeats: whoever has room left goes on taking all, whoever is full nothing."""
    out = [round(ratio, 6) for ratio in history]
    out.append(1.0 if open_still else 0.0)
    while len(out) > 1 and out[-1] == out[-2]:
        out.pop()
    return tuple(out)


class _Wanting:
    """One route's offers in one stage."""

    __slots__ = ("flow", "parts", "stage", "weights")

    def __init__(self, flow: Flow, stage: Stage, free: Mapping[DeploymentKey, float]) -> None:
        self.flow = flow
        self.stage: Stage = stage
        # Guests go by headroom, the last resorts by capacity.
        self.weights = [
            (room.headroom if stage == "overflow" else room.capacity_now) if room.key in free else 0.0
            for room in flow.rooms
        ]
        self.parts: list[tuple[int, float]] = []

    def offer(self, offered: dict[DeploymentKey, float], over_home: bool) -> None:
        """Split what is left over those still in, and add it to what each is offered, in its own tokens."""
        lane, demand = self.flow.lane, self.flow.demand
        if over_home:
            self.parts = [(p, share) for p, share in lane.home_share.items() if self.weights[p] > 0]
        else:
            self.parts = offers(lane.near_ms, self.weights, lane.spread_ms)
        for position, part in self.parts:
            room = self.flow.rooms[position]
            offered[room.key] = offered.get(room.key, 0.0) + demand * lane.left * part * room.kappa

    def take(
        self,
        number: int,
        ratios: Mapping[DeploymentKey, list[float]],
        free: dict[DeploymentKey, float],
        over_home: bool,
    ) -> None:
        lane, demand = self.flow.lane, self.flow.demand
        taken = 0.0
        for position, part in self.parts:
            room = self.flow.rooms[position]
            ratio, offered = ratios[room.key][number], lane.left * part
            took = lane.take(self.stage, position, offered, ratio, room.share_max)
            tokens = demand * took * room.kappa
            free[room.key] = max(0.0, free[room.key] - tokens)
            room.taken += tokens
            taken += took
            if not over_home and leaves(ratio, took, offered):
                self.weights[position] = 0.0
        lane.left = max(0.0, lane.left - taken)
