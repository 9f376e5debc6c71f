"""Admissions and rounds: what is foreseen is what happens, guests stay guests, and nothing jumps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from director.core.admission import Flow, Room, admit
from director.core.plan import DeploymentKey
from director.core.policy import Planner
from director.core.rounds import Entrant, allocate, home_shares

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
        )
        for name in NAMES
    ]
    flows = []
    for _ in range(draw(st.integers(1, 5))):
        permitted = draw(st.lists(st.booleans(), min_size=4, max_size=4))
        near = [draw(st.floats(0, 100)) for _ in NAMES]
        spread_ms = draw(st.floats(1, 80))
        lasting = [i for i in range(4) if permitted[i]]
        home = home_shares([near[i] for i in lasting], [rooms[i].capacity for i in lasting], spread_ms)
        shares = dict(zip(lasting, home, strict=True))
        entrants = [
            Entrant(near[i], shares.get(i, 0.0), permitted[i] and rooms[i].usable, 0.0, rooms[i].capacity, 0.0)
            for i in range(4)
        ]
        flows.append(
            Flow(draw(st.floats(0, 2000)), spread_ms, len(lasting) == 1, draw(st.booleans()), entrants, list(rooms))
        )
    return rooms, flows


def run(rooms: list[Room], flows: list[Flow]) -> None:
    admit({room.key: room for room in rooms}, flows, SETTINGS)


@settings(max_examples=300, deadline=None)
@given(fleet=fleets())
def test_replicas_see_what_the_planner_foresaw(fleet: tuple[list[Room], list[Flow]]) -> None:
    """Allocating each route alone, with the published fractions, gives the very shares that the planner counted on."""
    rooms, flows = fleet
    run(rooms, flows)
    for flow in flows:
        alone = [
            Entrant(
                e.near_ms,
                e.home_share,
                e.eligible,
                r.headroom,
                r.capacity,
                r.admit_captive if flow.captive else r.admit_home,
                r.admit_overflow,
                r.admit_relief,
                r.admit_overload,
            )
            for e, r in zip(flow.entrants, flow.rooms, strict=True)
            if r is not None
        ]
        refused = allocate(alone, flow.spread_ms, share_overload=flow.share_overload)
        if flow.demand > 1:
            assert refused == pytest.approx(flow.left, abs=1e-4)
            for foreseen, happens in zip(flow.entrants, alone, strict=True):
                assert happens.total == pytest.approx(foreseen.total, abs=1e-4)


@settings(max_examples=300, deadline=None)
@given(fleet=fleets())
def test_nobody_is_filled_beyond_what_their_stage_allows(fleet: tuple[list[Room], list[Flow]]) -> None:
    """No room beyond the ceiling; nobody who sheds takes guests; nobody who is out takes anything."""
    rooms, flows = fleet
    run(rooms, flows)
    for i, room in enumerate(rooms):
        taken = sum(f.demand * f.entrants[i].total * room.kappa for f in flows) + min(room.pinned, 0.9 * room.capacity)
        if room.usable:
            assert taken <= SETTINGS.overload_ceiling * room.capacity * (1 + 1e-6) + 1e-6
            guests = sum(f.demand * f.entrants[i].overflow * room.kappa for f in flows)
            if guests > 1e-6:
                assert room.admit_home >= 1 - 1e-9
                residents = room.offered + room.pinned
                assert guests <= max(0.0, 0.8 * room.capacity - residents) + 1e-6
        else:
            assert taken - min(room.pinned, 0.9 * room.capacity) == 0


@settings(max_examples=300, deadline=None)
@given(fleet=fleets())
def test_nothing_is_refused_while_a_permitted_region_has_headroom(fleet: tuple[list[Room], list[Flow]]) -> None:
    """A sharing route is refused only when every region that it may use is at the ceiling, on trial, or has none."""
    rooms, flows = fleet
    run(rooms, flows)
    for flow in flows:
        if flow.share_overload and flow.left * flow.demand > 1e-3:
            for i, room in enumerate(rooms):
                if flow.entrants[i].eligible and room.trial_ratio is None:
                    assert room.taken >= SETTINGS.overload_ceiling * room.capacity * (1 - 1e-6) - 1e-6


@settings(max_examples=200, deadline=None)
@given(fleet=fleets(), which=st.integers(0, 3), nudge=st.floats(-1e-7, 1e-7))
def test_shares_are_continuous_in_nearness(fleet: tuple[list[Room], list[Flow]], which: int, nudge: float) -> None:
    """Moving a region by a hair moves its home shares by no more than a hair: there is no cliff."""
    _, flows = fleet
    flow = flows[0]
    near = [e.near_ms for e in flow.entrants]
    capacity = [e.capacity_tokens_per_s + 1.0 for e in flow.entrants]
    before = home_shares(near, capacity, flow.spread_ms)
    near[which] += nudge
    after = home_shares(near, capacity, flow.spread_ms)
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
    before = home_shares(near, capacity[: len(near)], spread_ms)
    near[which] = max(0.0, near[which] - closer)
    after = home_shares(near, capacity[: len(near)], spread_ms)
    assert after[which] >= before[which] - 1e-9
    assert sum(after) == pytest.approx(1)


def test_a_room_that_only_slow_start_holds_back_gives_relief_before_a_refusal() -> None:
    """A returning region climbs slowly, unless the alternative is to turn requests away."""
    key = DeploymentKey("a", "m", "1")
    room = Room(key, 1000.0, True, True, None, 0.0, 1.0, admit_home_before=0.0, guest_gate=0.0, admit_rise_max=0.02)
    entrant = Entrant(10.0, 1.0, True, 0.0, 1000.0, 0.0)
    flow = Flow(500.0, 10.0, False, False, [entrant], [room])
    run([room], [flow])
    assert entrant.home == pytest.approx(0.02)
    assert entrant.relief == pytest.approx(0.98)
    assert flow.left == 0


def test_equal_rooms_fill_alike() -> None:
    """Two equal regions at equal distance take equal guests."""
    rooms = [
        Room(DeploymentKey(n, "m", "1"), c, True, True, None, 0.0, 1.0, 1.0, 1.0, 0.02)
        for n, c in (("home", 100.0), ("x", 1000.0), ("y", 1000.0))
    ]
    entrants = [
        Entrant(10.0, 1.0, True, 0.0, 100.0, 0.0),
        Entrant(50.0, 0.0, True, 0.0, 1000.0, 0.0),
        Entrant(50.0, 0.0, True, 0.0, 1000.0, 0.0),
    ]
    flow = Flow(1000.0, 10.0, False, True, entrants, list(rooms))
    run(rooms, [flow])
    assert entrants[0].home == pytest.approx(0.09)
    assert entrants[1].overflow == entrants[2].overflow == pytest.approx(0.455)
    assert structs.asdict(rooms[0])["admit_overflow"] == ()
