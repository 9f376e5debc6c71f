"""The rounds of one stage over all routes at once. See `rounds` for what a stage is, and `admission` for when it runs.

Each round: every route that has something left splits it over those still in; each room then knows what it is offered
and so what fraction fits; everybody takes that fraction. The fractions are the room's history, which is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from director.core.room import Flow, Room
from director.core.rounds import NOTHING, ROUNDS_MAX, Stage, leaves, offers


def settle(rooms: Iterable[Room], flows: Sequence[Flow], stage: Stage) -> None:
    """Run the stage with each room's `free`, and leave its fractions in `admit_<stage>`."""
    open_rooms = [room for room in rooms if room.free > 0]
    for room in open_rooms:
        room.history = []
    wanting = [_Wanting(flow, stage) for flow in flows if flow.lane.left > NOTHING]
    for number in range(ROUNDS_MAX):
        over_home = stage == "overload" and number == 0
        asked: list[Room] = []
        for wants in wanting:
            wants.offer(asked, over_home)
        if not asked and not over_home:
            break
        for room in asked:
            # Rounds in which nobody asked would have been taken whole, by whoever was not full.
            room.history += [1.0 if room.free > 0 else 0.0] * (number - len(room.history))
            room.history.append(1.0 if room.want <= room.free else max(0.0, room.free / room.want))
            room.want, room.asked = 0.0, False
        for wants in wanting:
            wants.take(number, over_home)
        wanting = [wants for wants in wanting if wants.flow.lane.left > NOTHING]
    for room in open_rooms:
        setattr(room, f"admit_{stage}", _shortened(room.history, open_still=room.free > 0))


def _shortened(history: list[float], *, open_still: bool) -> tuple[float, ...]:
    """Fractions by round, where the last repeats: whoever has room left goes on taking all, whoever is full nothing."""
    out = [round(ratio, 6) for ratio in history]
    out.append(1.0 if open_still else 0.0)
    while len(out) > 1 and out[-1] == out[-2]:
        out.pop()
    return tuple(out)


class _Wanting:
    """One route's offers in one stage."""

    __slots__ = ("first", "flow", "parts", "stage", "weights")

    def __init__(self, flow: Flow, stage: Stage) -> None:
        self.flow = flow
        self.stage: Stage = stage
        # Guests go by headroom, the last resorts by capacity.
        if stage == "overflow":
            self.weights = [room.headroom if room.free > 0 else 0.0 for room in flow.rooms]
        else:
            self.weights = [room.capacity_now if room.free > 0 else 0.0 for room in flow.rooms]
        self.parts: list[tuple[int, float]] = []
        self.first = 0

    def offer(self, asked: list[Room], over_home: bool) -> None:
        """Split what is left over those still in, and add it to what each is offered, in its own tokens."""
        lane, rooms, weights = self.flow.lane, self.flow.rooms, self.weights
        if over_home:
            self.parts = [(p, share) for p, share in lane.home_share.items() if weights[p] > 0]
        else:
            while self.first < len(weights) and weights[self.first] <= 0:
                self.first += 1
            self.parts = offers(lane.near_ms, weights, lane.spread_ms, first=self.first)
        tokens = self.flow.demand * lane.left
        for position, part in self.parts:
            room = rooms[position]
            if not room.asked:
                room.asked = True
                asked.append(room)
            room.want += tokens * part * room.kappa

    def take(self, number: int, over_home: bool) -> None:
        """Give everybody its round's fraction. `Lane.take`, written out: it is a quarter of a step's time."""
        lane, rooms, demand, given = self.flow.lane, self.flow.rooms, self.flow.demand, self.flow.lane.stage(self.stage)
        left, taken = lane.left, 0.0
        for position, part in self.parts:
            room = rooms[position]
            ratio, offered = room.history[number], left * part
            took = offered * ratio
            if room.share_max < 1.0:
                took = min(took, max(0.0, room.share_max - lane.total(position)))
            if took > 0.0:
                given[position] = given.get(position, 0.0) + took
                tokens = demand * took * room.kappa
                room.free = room.free - tokens if room.free > tokens else 0.0
                room.taken += tokens
                taken += took
            if not over_home and leaves(ratio, took, offered):
                self.weights[position] = 0.0
        lane.left = left - taken if left > taken else 0.0
