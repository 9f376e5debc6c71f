"""The rounds of one stage over a model's routes at once. See `rounds` for what a stage is, and `admission` for when.

Each round: every route that has something left splits it over those still in; each room then knows what it is offered
and so what fraction fits; everybody takes that fraction. The fractions are the room's history, which is published.

This is the arithmetic of `rounds.offers` and `rounds.leaves`, written out: a route looks only at those that it has
reached, and no further than they take what it offers.
"""

from __future__ import annotations

from collections.abc import Sequence

from director.core.grain import grained
from director.core.room import Flow, Room
from director.core.rounds import NOTHING, ROUNDS_MAX, Stage

_ALL = (1.0,)


def settle(rooms: Sequence[Room], flows: Sequence[Flow], stage: Stage) -> None:
    """Run the stage with each room's `free`, and leave its fractions in `admit_<stage>`."""
    wanting = [_Wanting(flow, stage) for flow in flows if flow.lane.left > NOTHING]
    admitted = f"admit_{stage}"
    if not wanting:
        for room in rooms:
            if room.free > NOTHING:
                setattr(room, admitted, _ALL)
        return
    open_rooms = []
    for room in rooms:
        room.weight = 0.0
        if room.free > NOTHING:
            # Guests go by headroom, the last resorts by capacity.
            room.weight = room.headroom if stage == "overflow" else room.capacity_now
            room.history = []
            open_rooms.append(room)
    for number in range(ROUNDS_MAX):
        over_home = stage == "overload" and number == 0
        asked: list[Room] = []
        for wants in wanting:
            if over_home:
                wants.turn_home()
            else:
                wants.turn_near()
            wants.offer(asked)
        if not asked and not over_home:
            break
        for room in asked:
            # Rounds in which nobody asked would have been taken whole, by whoever was not full.
            room.history += [1.0 if room.free > 0 else 0.0] * (number - len(room.history))
            # Of nothing nothing is taken by who is full: a route whose demand is over opens no room for others.
            room.ratio = 0.0 if room.free <= 0.0 else 1.0 if room.want <= room.free else room.free / room.want
            room.history.append(room.ratio)
            room.want, room.asked = 0.0, False
        for wants in wanting:
            wants.take(everybody_stays=over_home)
        wanting = [wants for wants in wanting if wants.flow.lane.left > NOTHING]
    for room in open_rooms:
        # Whom nobody asked takes all of whatever comes.
        setattr(room, admitted, _shortened(room.history, open_still=room.free > 0) if room.history else _ALL)


def _shortened(history: list[float], *, open_still: bool) -> tuple[float, ...]:
    """Fractions by round, where the last repeats: whoever has room left goes on taking all, whoever is full nothing."""
    last = 1.0 if open_still else 0.0
    out = [grained(ratio, 1_000_000) if 0.0 < ratio < 1.0 else ratio for ratio in history]
    out.append(last)
    while len(out) > 1 and out[-1] == out[-2]:
        out.pop()
    return tuple(out)


class _Wanting:
    """One route's offers in one stage."""

    __slots__ = ("flow", "given", "nearest", "parts", "reached", "total")

    def __init__(self, flow: Flow, stage: Stage) -> None:
        self.flow = flow
        self.given = flow.lane.stage(stage)
        self.reached = 0
        """Positions looked at so far; nobody beyond was ever near enough to be asked."""
        self.parts: list[tuple[int, Room, float]] = []
        """The round's, by weight, nearest first: `total` is one. After it, those who took all they were offered."""
        self.nearest = -1
        """Whom the parts are measured from."""
        self.total = 1.0

    def turn_home(self) -> None:
        """Overload's first round: over home shares."""
        rooms = self.flow.rooms
        self.parts = [
            (position, rooms[position], share)
            for position, share in self.flow.lane.home_share.items()
            if rooms[position].weight > 0
        ]
        self.total = 1.0

    def turn_near(self) -> None:
        """The nearest that is still in, and those within the spread of it."""
        if not self.parts or self.parts[0][0] != self.nearest:
            self._turn_to_next()
        total = 0.0
        for _, _, part in self.parts:
            total += part
        self.total = total

    def _turn_to_next(self) -> None:
        flow, still_in, reached = self.flow, self.parts, self.reached
        near_ms, spread_ms, rooms = flow.lane.near_ms, flow.lane.spread_ms, flow.rooms
        if still_in:
            nearest = still_in[0][0]
        else:
            while reached < len(rooms) and rooms[reached].weight <= 0:
                reached += 1
            nearest = reached
        parts: list[tuple[int, Room, float]] = []
        self.nearest, self.parts, self.reached = nearest, parts, reached
        if nearest == len(rooms):
            return
        nearest_ms = near_ms[nearest]
        for position, room, _ in still_in:
            beyond = near_ms[position] - nearest_ms
            part = room.weight * (1.0 - beyond / spread_ms) if beyond > 0 else room.weight
            if part > 0:
                parts.append((position, room, part))
        while reached < len(rooms):
            beyond = near_ms[reached] - nearest_ms
            if beyond >= spread_ms and beyond > 0:
                break
            room = rooms[reached]
            part = room.weight * (1.0 - beyond / spread_ms) if beyond > 0 else room.weight
            if part > 0:
                parts.append((reached, room, part))
            reached += 1
        self.reached = reached

    def offer(self, asked: list[Room]) -> None:
        """Split what is left over the round's parts, and add it to what each is offered, in its own tokens."""
        tokens, total = self.flow.demand * self.flow.lane.left, self.total
        for _, room, part in self.parts:
            if not room.asked:
                room.asked = True
                asked.append(room)
            room.want += tokens * (part / total) * room.kappa

    def take(self, *, everybody_stays: bool) -> None:
        """Give everybody its round's fraction. As a rule whoever takes only part of an offer is asked no more."""
        lane, demand, given, total = self.flow.lane, self.flow.demand, self.given, self.total
        left, taken = lane.left, 0.0
        still_in = []
        for place in self.parts:
            position, room, part = place
            took = whole = left * (part / total) * room.ratio
            if room.share_max < 1.0:
                took = min(took, max(0.0, room.share_max - lane.total(position)))
            if took > 0.0:
                given[position] = given.get(position, 0.0) + took
                tokens = demand * took * room.kappa
                # What is left of a room that was filled is rounding, and no room.
                room.free = rest if (rest := room.free - tokens) > NOTHING * (1.0 + room.capacity) else 0.0
                room.taken += tokens
                taken += took
            if room.ratio >= 1.0 and took >= whole - NOTHING:
                still_in.append(place)
        # Overload's first round is measured from nobody, and whoever took a part of it is asked again by nearness.
        self.parts = [] if everybody_stays else still_in
        lane.left = left - taken if left > taken else 0.0
