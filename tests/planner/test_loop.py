from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from director.core.events import Event
from director.core.state import PlannerState
from director.planner.loop import PlannerLoop
from director.store import lease, operators, plans, policies
from director.store.database import Database
from director.store.events import list_events
from director.store.lease import Fenced
from director.store.reports import put_report
from tests.planner.worlds import POLICY, report

pytestmark = pytest.mark.postgres


async def ready(database: Database, holder: str = "a") -> PlannerLoop:
    await policies.add(database, {"a.yaml": ""}, POLICY, "test", "first")
    return PlannerLoop(database, holder)


async def say(database: Database, region: str, sequence: int, **changes: object) -> None:
    told = report(sequence, **changes)
    assert await put_report(database, region, told, msgspec.json.encode(told)) == "accepted"


async def test_a_report_becomes_a_plan(database: Database) -> None:
    """Report in, one tick, plan out: with its policy's version, its term, and events that say what changed."""
    loop = await ready(database)
    await say(database, "eu-west-1", 1)
    assert await loop.tick()
    stored = await plans.latest_plan(database)
    assert stored is not None
    (deployment,) = stored.plan.deployments
    assert (deployment.region, deployment.capacity_tokens_per_s) == ("eu-west-1", 1_000.0)
    assert (stored.plan.policy, stored.plan.term, stored.plan.previous) == (1, loop.lease.term, 0)
    assert "first_plan" in [one.event.kind for one in await list_events(database)]


async def test_a_quiet_tick_writes_the_heartbeat_and_nothing_else(database: Database) -> None:
    """Nothing changed: no plan row, no event, a younger heartbeat (D20)."""
    loop = await ready(database)
    await say(database, "eu-west-1", 1)
    await loop.tick()
    before, events = await plans.heartbeat(database), await list_events(database)
    assert before is not None
    for _ in range(3):
        assert await loop.tick()
    after = await plans.heartbeat(database)
    assert after is not None
    assert after.epoch == before.epoch
    assert after.at_ms > before.at_ms
    assert await list_events(database) == events


async def test_without_a_policy_it_waits(database: Database) -> None:
    """It keeps the lease and publishes nothing, until a policy is stored."""
    loop = PlannerLoop(database, "a")
    assert not await loop.tick()
    assert loop.lease.held
    assert await plans.heartbeat(database) is None
    await policies.add(database, {"a.yaml": ""}, POLICY, "test", "first")
    assert await loop.tick()


async def test_a_new_policy_makes_a_plan_that_names_it(database: Database) -> None:
    """The planner goes over to a version with its next tick."""
    loop = await ready(database)
    await loop.tick()
    await policies.add(database, {"a.yaml": "#"}, POLICY, "test", "second")
    await loop.tick()
    stored = await plans.latest_plan(database)
    assert stored is not None
    assert stored.plan.policy == 2


async def test_an_operators_drain_is_in_the_next_plan(database: Database) -> None:
    """Settings are read with everything else."""
    loop = await ready(database)
    await say(database, "eu-west-1", 1)
    await loop.tick()
    await operators.put(database, "eu-west-1", "down", who="ann", reason="fire")
    await loop.tick()
    stored = await plans.latest_plan(database)
    assert stored is not None
    mark = next(one.operator for one in stored.plan.regions if one.region == "eu-west-1")
    assert mark is not None
    assert (mark.kind, mark.who) == ("down", "ann")


async def test_the_next_leader_goes_on_from_the_stored_state(database: Database) -> None:
    """Averages, breakers and published values survive: the new leader publishes no plan for what is known."""
    first = await ready(database)
    await say(database, "eu-west-1", 1)
    await first.tick()
    await first.lease.release()
    second = PlannerLoop(database, "b")
    assert await second.tick()
    stored = await plans.latest_plan(database)
    assert stored is not None
    assert stored.plan.term < second.lease.term
    state = await plans.load_state(database)
    assert state is not None
    assert [one.region for one in msgspec.json.decode(state.state_json, type=PlannerState).deployments] == ["eu-west-1"]


async def test_a_state_that_cannot_be_read_starts_afresh(database: Database) -> None:
    """Another release's state row: averages are lost, decisions are not."""
    term = await lease.acquire(database, "old", 60.0)
    assert term is not None
    await plans.publish(database, b'{"from": "the future"}', None, [], term)
    await lease.release(database, "old", term)
    loop = await ready(database)
    await say(database, "eu-west-1", 1)
    assert await loop.tick()
    assert (await plans.latest_plan(database)) is not None


async def test_a_fenced_leader_steps_down_and_publishes_nothing(database: Database) -> None:
    """Its lease passed to another between its renewal and its publication: the old term changes no row."""
    loop = await ready(database)
    await loop.tick()
    before = await plans.heartbeat(database)
    await say(database, "eu-west-1", 1)
    # As if it were paused right after renewing: the lease is given away under its feet.
    await lease.release(database, loop.lease.holder, loop.lease.term)
    other = await lease.acquire(database, "b", 60.0)
    assert other is not None

    async def renewed(*_: object) -> bool:
        return True

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("director.store.lease.renew", renewed)
        with pytest.raises(Fenced):
            await loop.tick()
        await loop._tick_safely()
    assert loop.lease.term == 0
    assert before is not None
    after = await plans.heartbeat(database)
    assert after is not None
    assert (after.at_ms, after.epoch, after.term) == (before.at_ms, before.epoch, before.term)
    assert not await loop.tick()


async def test_a_publication_that_may_have_been_lost_is_read_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit's answer was lost: the next tick starts from what is stored, and goes on."""
    from director.store.database import DatabaseUnavailable

    loop = await ready(database)
    await say(database, "eu-west-1", 1)
    real = plans.publish

    async def committed_and_lost(*arguments: object) -> None:
        await real(*arguments)  # type: ignore[arg-type]
        raise DatabaseUnavailable("the connection broke")

    with monkeypatch.context() as patched:
        patched.setattr("director.store.plans.publish", committed_and_lost)
        await loop._tick_safely()
    first = await plans.latest_plan(database)
    assert first is not None
    await say(database, "eu-west-1", 2, ready=2)
    assert await loop.tick()
    second = await plans.latest_plan(database)
    assert second is not None
    assert second.plan.previous == first.plan.epoch


async def test_a_broken_invariant_publishes_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that breaks a promise is never stored: the last one stays, and the heartbeat with it."""
    from director.core.errors import InvariantBroken

    loop = await ready(database)
    await loop.tick()
    before = await plans.heartbeat(database)

    def broken(*_: object) -> None:
        raise InvariantBroken("a share above 1")

    await say(database, "eu-west-1", 1)
    with monkeypatch.context() as patched:
        patched.setattr("director.planner.loop.check_invariants", broken)
        await loop._tick_safely()
    assert await plans.heartbeat(database) is not None
    after = await plans.heartbeat(database)
    assert before is not None
    assert after is not None
    assert (after.epoch, after.at_ms) == (before.epoch, before.at_ms)
    assert await loop.tick()


async def test_an_outage_ages_no_region(database: Database) -> None:
    """A minute in which nobody could report: the first tick after it finds the region as fresh as before."""
    loop = await ready(database)
    await say(database, "eu-west-1", 1)
    await loop.tick()
    minute_ago = "UPDATE {} SET {} = {} - interval '60 s'"
    async with database.transaction() as connection:
        for table, column in (("planner_state", "at"), ("latest_reports", "received_at")):
            await connection.exec_driver_sql(minute_ago.format(table, column, column))
    await loop.lease.release()
    again = PlannerLoop(database, "b")
    assert await again.tick()
    stored = await plans.latest_plan(database)
    assert stored is not None
    assert next(one.freshness for one in stored.plan.regions if one.region == "eu-west-1") == "fresh"
    assert not [one for one in await list_events(database) if _lost(one.event)]


def _lost(event: Event) -> bool:
    return event.kind == "freshness" and event.after in ("stale", "lost")


async def test_it_gives_the_lease_back_when_stopped(database: Database) -> None:
    """A stop in order leaves the next leader nothing to wait for."""
    loop = await ready(database)
    task = asyncio.create_task(loop.run())
    deadline_s = time.monotonic() + 5
    while await lease.leader(database) is None:
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await lease.leader(database) is None
