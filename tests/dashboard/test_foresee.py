"""What a change would move, foreseen by the planner's own step."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from director.core.policy import Residency, Tenant
from director.core.state import PlannerState
from director.http.policies.foresee import foreseen, marked, moves_of_act, moves_of_policy
from director.http.reading.pieces import decode_state
from director.http.state import HttpState
from director.store import events, operators, plans
from tests.dashboard.worlds import World


async def test_nothing_changed_moves_nothing(world: World) -> None:
    """The same policy, and an end of what was not set."""
    http = HttpState(world.view)
    same = await moves_of_policy(http, world.policy)
    assert same is not None
    assert (same.moved_share, same.routes_changed) == (0.0, 0)
    ended = await moves_of_act(http, "eu-west-1", "undrain")
    assert ended is not None
    assert ended.moved_share == 0.0


async def test_what_is_foreseen_of_a_drain_is_what_comes(world: World) -> None:
    """The shares after a preview are those of the plans that follow the act."""
    http = HttpState(world.view)
    preview = await moves_of_act(http, "eu-west-1", "drain")
    assert preview is not None
    assert (preview.weighed_by, preview.ahead_s) == ("demand", 60)
    after = {one.region: one.after for one in preview.regions if one.after > 0}
    before = {one.region: one.before for one in preview.regions}
    assert before["eu-west-1"] > 0.1
    assert "eu-west-1" not in after
    assert sum(after.values()) + preview.refused_after == pytest.approx(1.0, abs=1e-4)
    assert sum(before.values()) + preview.refused_before == pytest.approx(1.0, abs=1e-4)
    await operators.put(world.database, "eu-west-1", "drain", who="ops", reason="x")
    await world.plan()
    again = await moves_of_act(http, "eu-west-1", "drain")
    assert again is not None
    now = {one.region: one.before for one in again.regions}
    assert now == pytest.approx(after, abs=0.01)


async def test_the_end_of_a_drain_brings_traffic_back(world: World) -> None:
    """At the pace at which it comes: within a minute, not at once."""
    await operators.put(world.database, "us-east-1", "down", who="ops", reason="x")
    await world.plan()
    preview = await moves_of_act(HttpState(world.view), "us-east-1", "up")
    assert preview is not None
    (row,) = (one for one in preview.regions if one.region == "us-east-1")
    assert row.before == 0.0
    assert row.after > 0.05


async def test_a_cap_bounds_and_its_end_frees(world: World) -> None:
    """No route gives a capped region more than its share."""
    http = HttpState(world.view)
    capped = await moves_of_act(http, "eu-central-1", "cap", 0.1)
    assert capped is not None
    assert all(move.after.get("eu-central-1", 0.0) <= 0.1001 for move in capped.routes)
    assert capped.moved_share > 0


async def test_a_preview_writes_nothing(world: World) -> None:
    """Neither a setting nor a plan nor an event."""
    before = (await plans.latest_plan(world.database), await events.newest_event_id(world.database))
    await moves_of_act(HttpState(world.view), "eu-west-1", "down")
    assert (await plans.latest_plan(world.database), await events.newest_event_id(world.database)) == before
    assert await operators.list_settings(world.database) == ()


async def test_a_policy_that_overloads_says_what_is_refused(world: World) -> None:
    """All of a tenant's traffic into one region that cannot take it: the refused part is foreseen."""
    tenants = {**world.policy.tenants, "open": Tenant(Residency(allow=("IE",)), on_overload="refuse")}
    moves = await moves_of_policy(HttpState(world.view), structs.replace(world.policy, tenants=tenants))
    assert moves is not None
    assert moves.refused_after > moves.refused_before + 0.1
    assert moves.residency_narrowed["open"]


async def test_without_a_state_the_plan_itself_is_marked(world: World) -> None:
    """The first second of a fleet: the plan in use under the setting."""
    assert world.state.plan is not None
    setting = await operators.put(world.database, "eu-west-1", "down", who="ops", reason="x")
    told = {one.region: one for one in marked(world.state.plan, [setting]).regions}
    assert told["eu-west-1"].operator is not None
    assert told["eu-central-1"] == {one.region: one for one in world.state.plan.regions}["eu-central-1"]
    assert foreseen(world.state, world.policy, [setting], 10).policy == world.state.plan.policy


async def test_a_state_decoded_in_pieces_is_the_state(world: World) -> None:
    """Whole, empty and without a plan; nonsense is refused as before."""
    for state in (world.state, PlannerState(), structs.replace(world.state, plan=None)):
        assert decode_state(msgspec.json.encode(state)) == state
    for content in (b"{}", b"[1", b'[1,2,[],[[["a"]]]]', b"[1,2,[],[],[],[],[],{}]"):
        with pytest.raises(msgspec.MsgspecError):
            decode_state(content)
