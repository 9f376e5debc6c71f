"""Admissions and rounds: what is foreseen is what happens, guests stay guests, and nothing jumps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from director.core.admission import FILL_S, admit
from director.core.filling import Filling
from director.core.plan import DeploymentKey
from director.core.policy import Planner
from director.core.room import Flow, Room
from director.core.rounds import Lane, home_shares, spread

SETTINGS = Planner()
NAMES = ["a", "b", "c", "d"]


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Room], list[Flow]]:
    """Four deployments in any condition, and up to five routes that may use some of them."""
    rooms = [
        Room(
            DeploymentKey(name, "m", "1"),
            capacity=draw(st.floats(0, 1000)),
            usable=draw(st.sampled_from([True, True, True, False])),
            fresh=draw(st.sampled_from([True, True, False])),
            trial_ratio=draw(st.sampled_from([None, None, None, 0.02])),
            pinned=draw(st.sampled_from([0.0, 100.0, 900.0])),
            kappa=draw(st.floats(0.3, 3)),
            admit_home_before=draw(st.sampled_from([0.0, 0.5, 1.0])),
            guest_gate=draw(st.sampled_from([0.0, 0.5, 1.0])),
            admit_rise_max=0.02,
            filling=Filling(draw(st.sampled_from([-1.0, -1.0, 0.0, 0.5, 1.2])), draw(st.sampled_from([0.0, 0.95]))),
            guessed=draw(st.sampled_from([False, False, True])),
            life_s=draw(st.sampled_from([2.0, 15.0, 60.0])),
        )
        for name in NAMES
    ]
    for room in rooms:
        room.capacity_now = room.capacity
    flows = []
    for _ in range(draw(st.integers(1, 5))):
        permitted = [room for room in rooms if draw(st.booleans())]
        near = sorted(draw(st.floats(0, 100)) for _ in permitted)
        lane = lane_of(near, permitted, draw(st.floats(1, 80)))
        demand, left = draw(st.floats(0, 2000)), draw(st.sampled_from([0.3, 1.0, 1.0]))
        flows.append(Flow(demand, len(permitted) == 1, draw(st.booleans()), lane, permitted, demand * left))
    return rooms, flows


def lane_of(near: list[float], rooms: list[Room], spread_ms: float) -> Lane:
    return Lane(near, spread_ms, home_shares(near, [room.capacity for room in rooms], spread_ms))


def run(rooms: list[Room], flows: list[Flow]) -> None:
    admit(rooms, flows, SETTINGS)


@settings(max_examples=300, deadline=None)
@given(fleet=fleets())
def test_replicas_see_what_the_planner_foresaw(fleet: tuple[list[Room], list[Flow]]) -> None:
    """Allocating each route alone, with the published fractions, gives the very shares that the planner counted on."""
    rooms, flows = fleet
    run(rooms, flows)
    for flow in flows:
        near = list(flow.lane.near_ms)
        alone = lane_of(near, flow.rooms, flow.lane.spread_ms)
        share_max = [1.0] * len(near)
        for position in alone.home_share:
            room = flow.rooms[position]
            if room.usable:
                alone.take_home(position, room.admit_captive if flow.captive else room.admit_home, 1.0)
        for stage in ("overflow", "relief", "overload"):
            ratios = [getattr(room, f"admit_{stage}") for room in flow.rooms]
            weights = [
                (room.headroom if stage == "overflow" else room.capacity_now) if ratio else 0.0
                for room, ratio in zip(flow.rooms, ratios, strict=True)
            ]
            if alone.left > 0 and (stage != "overload" or flow.share_overload):
                spread(alone, stage, weights, ratios, share_max)  # type: ignore[arg-type]
        if flow.demand > 1:
            assert alone.left == pytest.approx(flow.lane.left, abs=1e-4)
            for position in range(len(near)):
                assert alone.total(position) == pytest.approx(flow.lane.total(position), abs=1e-4)


@settings(max_examples=300, deadline=None)
@given(fleet=fleets())
def test_nobody_is_filled_beyond_what_their_stage_allows(fleet: tuple[list[Room], list[Flow]]) -> None:
    """No room beyond the ceiling and what empty slots hold; who sheds takes no guests, and who is out takes nothing."""
    rooms, flows = fleet
    run(rooms, flows)
    for room in rooms:
        places = [(f, f.rooms.index(room)) for f in flows if room in f.rooms]
        taken = sum(f.demand * f.lane.total(i) * room.kappa for f, i in places)
        taken += min(room.pinned, 0.9 * room.capacity)
        if room.usable:
            empty = max(0.0, 0.9 - room.filling.now) if room.filling.known else 0.0
            most = max(SETTINGS.overload_ceiling, 0.9 + empty * max(1.0, room.life_s / FILL_S))
            # What was never measured refuses nobody while its slots stand empty.
            unbounded = room.guessed and room.capacity > 0 and room.filling.known and room.filling.first < 0.9
            assert unbounded or taken <= most * room.capacity * (1 + 1e-6) + 1e-6
            guests = sum(f.demand * f.lane.overflow.get(i, 0.0) * room.kappa for f, i in places)
            if guests > 1e-6:
                assert room.admit_home >= 1 - 1e-9
                residents = room.offered + room.pinned
                assert guests <= max(0.0, 0.8 * room.capacity - residents) + 1e-6
        else:
            assert taken - min(room.pinned, 0.9 * room.capacity) == 0


@settings(max_examples=300, deadline=None)
@given(fleet=fleets())
def test_who_is_full_stays_closed(fleet: tuple[list[Room], list[Flow]]) -> None:
    """After a round that took only a part nothing more is taken: what rounding leaves of a room does not open it."""
    rooms, flows = fleet
    run(rooms, flows)
    for room in rooms:
        for ratios in (room.admit_overflow, room.admit_relief, room.admit_overload):
            partial = next((i for i, ratio in enumerate(ratios) if ratio < 1.0), len(ratios))
            assert not any(ratios[partial + 1 :])


@settings(max_examples=300, deadline=None)
@given(fleet=fleets())
def test_nothing_is_refused_while_a_permitted_region_has_headroom(fleet: tuple[list[Room], list[Flow]]) -> None:
    """A sharing route is refused only when every region that it may use is at the ceiling, on trial, or has none."""
    rooms, flows = fleet
    run(rooms, flows)
    for flow in flows:
        if flow.share_overload and flow.lane.left * flow.demand > 1e-3:
            for room in flow.rooms:
                if room.usable and room.trial_ratio is None:
                    assert room.taken >= SETTINGS.overload_ceiling * room.capacity * (1 - 1e-6) - 1e-6


@settings(max_examples=200, deadline=None)
@given(
    near=st.lists(st.floats(0, 100), min_size=2, max_size=5),
    capacity=st.lists(st.floats(1, 1000), min_size=5, max_size=5),
    which=st.integers(0, 4),
    nudge=st.floats(-1e-7, 1e-7),
    spread_ms=st.floats(1, 80),
)
def test_shares_are_continuous_in_nearness(
    near: list[float], capacity: list[float], which: int, nudge: float, spread_ms: float
) -> None:
    """Moving a region by a hair moves its home shares by no more than a hair: there is no cliff."""
    which %= len(near)
    before = home_of(near, capacity, spread_ms)
    near[which] += nudge
    after = home_of(near, capacity, spread_ms)
    assert after == pytest.approx(before, abs=1e-3)


@given(
    near=st.lists(st.floats(0, 100), min_size=2, max_size=5),
    capacity=st.lists(st.floats(1, 1000), min_size=5, max_size=5),
    which=st.integers(0, 4),
    closer=st.floats(0, 50),
    spread_ms=st.floats(0.1, 80),
)
def test_a_region_that_gets_nearer_never_loses_home_share(
    near: list[float], capacity: list[float], which: int, closer: float, spread_ms: float
) -> None:
    """Nearness helps, always."""
    which %= len(near)
    before = home_of(near, capacity, spread_ms)
    near[which] = max(0.0, near[which] - closer)
    after = home_of(near, capacity, spread_ms)
    assert after[which] >= before[which] - 1e-9
    assert sum(after) == pytest.approx(1)


def home_of(near: list[float], capacity: list[float], spread_ms: float) -> list[float]:
    """Home shares by region, however the regions are ordered."""
    order = sorted(range(len(near)), key=lambda i: near[i])
    shares = home_shares([near[i] for i in order], [capacity[i] for i in order], spread_ms)
    return [shares.get(order.index(i), 0.0) for i in range(len(near))]


def test_a_room_that_only_slow_start_holds_back_gives_relief_before_a_refusal() -> None:
    """A returning region climbs slowly, unless the alternative is to turn requests away."""
    room = a_room("a", 1000.0, admit_home_before=0.0, guest_gate=0.0)
    flow = Flow(500.0, False, False, lane_of([10.0], [room], 10.0), [room])
    run([room], [flow])
    assert flow.lane.home[0] == pytest.approx(0.02)
    assert flow.lane.relief[0] == pytest.approx(0.98)
    assert flow.lane.left == 0


def test_what_is_kept_free_for_residents_goes_before_anybody_is_overloaded() -> None:
    """The far region's reserve, from the overflow target to the home target, is used first; nobody is overloaded."""
    rooms = [a_room("home", 1000.0), a_room("far", 1000.0)]
    flow = Flow(1780.0, False, True, lane_of([10.0, 40.0], rooms, 10.0), rooms)
    run(rooms, [flow])
    assert flow.demand * flow.lane.total(0) == pytest.approx(900)
    assert flow.demand * flow.lane.overflow[1] == pytest.approx(800)
    assert flow.demand * flow.lane.relief[1] == pytest.approx(80)
    assert flow.lane.overload == {}


def test_a_reserve_is_no_room_for_guests_who_could_go_home() -> None:
    """While home has room nobody is a guest, and a region that sheds its own lends nothing of its reserve."""
    rooms = [a_room("a", 1000.0), a_room("b", 1000.0)]
    both = [Flow(demand, False, False, lane_of([10.0, 40.0], order, 10.0), order)
            for demand, order in ((1000.0, rooms), (1000.0, rooms[::-1]))]  # fmt: skip
    run(rooms, both)
    for flow in both:
        assert flow.demand * flow.lane.home[0] == pytest.approx(900)
        assert flow.lane.total(1) == 0


@pytest.mark.parametrize(("first", "refused"), [(0.2, 0.0), (0.95, 0.55)])
def test_a_guess_refuses_nobody_while_slots_stand_empty(first: float, refused: float) -> None:
    """A capacity that nobody measured or configured: what the newest report said of its slots counts for more."""
    room = a_room("a", 100.0, guessed=True, filling=Filling(first, first), life_s=2.0)
    flow = Flow(200.0, False, False, lane_of([10.0], [room], 10.0), [room])
    run([room], [flow])
    assert flow.lane.left == pytest.approx(refused)


def test_equal_rooms_fill_alike() -> None:
    """Two equal regions at equal distance take equal guests."""
    rooms = [a_room("home", 100.0), a_room("x", 1000.0), a_room("y", 1000.0)]
    flow = Flow(1000.0, False, True, lane_of([10.0, 50.0, 50.0], rooms, 10.0), rooms)
    run(rooms, [flow])
    assert flow.lane.home == {0: pytest.approx(0.09)}
    assert flow.lane.overflow == {1: pytest.approx(0.455), 2: pytest.approx(0.455)}
    assert rooms[0].admit_overflow == ()


def a_room(name: str, capacity: float, **fields: Any) -> Room:
    defaults: dict[str, Any] = {"admit_home_before": 1.0, "guest_gate": 1.0}
    return Room(
        DeploymentKey(name, "m", "1"),
        capacity,
        True,
        True,
        None,
        0.0,
        1.0,
        admit_rise_max=0.02,
        capacity_now=capacity,
        **{**defaults, **fields},
    )
