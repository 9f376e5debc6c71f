"""The lease and the fence: one leader, no reused term, no plan from the past."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from sqlalchemy import update

from director.store import events, lease, plans, tables
from director.store.database import Database
from tests.store.builders import event, plan, until

pytestmark = pytest.mark.postgres


async def end_lease(database: Database) -> None:
    """As if its time had passed."""
    async with database.transaction() as connection:
        await connection.execute(update(tables.leases).values(expires_at=tables.NOW))


async def lead(database: Database, holder: str = "a") -> int:
    term = await lease.acquire(database, holder, 30)
    assert term is not None
    return term


async def test_one_holder_at_a_time(database):
    """A second gets nothing while the first's lease runs, and a greater term when it has ended."""
    first = await lead(database, "a")
    assert await lease.acquire(database, "b", 30) is None
    assert (await lease.leader(database))[:2] == ("a", first)
    await end_lease(database)
    assert await lease.leader(database) is None
    second = await lead(database, "b")
    assert second > first


async def test_of_many_that_ask_at_once_one_wins(postgres_url):
    """Eight processes ask at the same moment; exactly one leads."""
    databases = [Database(postgres_url, pool_size=1) for _ in range(8)]
    terms = await asyncio.gather(*(lease.acquire(db, f"p{i}", 30) for i, db in enumerate(databases)))
    assert sum(term is not None for term in terms) == 1
    await asyncio.gather(*(db.close() for db in databases))


async def test_renewal_is_for_the_live_holder_only(database):
    """Not for another holder, not for an old term, not after the end."""
    term = await lead(database, "a")
    assert await lease.renew(database, "a", term, 30)
    assert not await lease.renew(database, "b", term, 30)
    assert not await lease.renew(database, "a", term - 1, 30)
    await end_lease(database)
    assert not await lease.renew(database, "a", term, 30)


async def test_a_released_lease_is_free_at_once(database):
    """A planner that stops in order does not make another wait; nobody can release for it."""
    term = await lead(database, "a")
    await lease.release(database, "b", term)
    assert await lease.acquire(database, "b", 30) is None
    await lease.release(database, "a", term)
    assert await lease.acquire(database, "b", 30) is not None


async def test_publishing_is_heartbeat_state_plan_and_events_at_once(database):
    """Everything of a tick is there after it, and the heartbeat has the database's time."""
    assert await plans.heartbeat(database) is None
    assert await plans.load_state(database) is None
    assert await plans.latest_plan(database) is None
    term = await lead(database)
    await plans.publish(database, b'{"a": 1}', plan(10, 0, term=term), [event("why")], term, {"demand": 7})
    beat = await plans.heartbeat(database)
    assert (beat.term, beat.epoch) == (term, 10)
    assert 0 <= beat.now_ms - beat.at_ms < 5_000
    state = await plans.load_state(database)
    assert (state.state_json, state.term, state.cursors) == (b'{"a": 1}', term, {"demand": 7})
    assert (await plans.latest_plan(database)).plan == plan(10, 0, term=term)
    assert [stored.event for stored in await events.list_events(database)] == [event("why")]


async def test_a_quiet_tick_writes_no_plan_and_no_event(database):
    """The heartbeat alone moves."""
    term = await lead(database)
    await plans.publish(database, b"{}", plan(10, 0), [event("first")], term)
    first = await plans.heartbeat(database)
    while await database.now_ms() <= first.at_ms:
        await asyncio.sleep(0)
    await plans.publish(database, b"{}", None, [], term)
    second = await plans.heartbeat(database)
    assert second.at_ms > first.at_ms
    assert second.epoch == 10
    assert len(await plans.plans_since(database, 0)) == 1
    assert len(await events.list_events(database)) == 1


@pytest.mark.parametrize("how", ["taken over", "ended", "never taken"])
async def test_an_old_term_cannot_publish(database, how):
    """A leader that was paused wakes to Fenced, whatever happened meanwhile, and leaves no trace."""
    term = 1
    if how != "never taken":
        term = await lead(database, "a")
        await plans.publish(database, b'{"by": "a"}', plan(10, 0), [], term)
        await end_lease(database)
    if how == "taken over":
        await lead(database, "b")
    before = await plans.load_state(database)
    with pytest.raises(lease.Fenced, match="term"):
        await plans.publish(database, b'{"by": "ghost"}', plan(11, 10), [event("ghost")], term)
    assert await plans.load_state(database) == before
    assert [stored.plan.epoch for stored in await plans.plans_since(database, 10)] == []
    assert await events.list_events(database) == []


async def test_a_take_over_waits_for_a_publication_under_way(postgres_url):
    """Between the check of the term and the commit nobody else becomes the leader, although the lease has ended."""
    writer, taker = Database(postgres_url), Database(postgres_url)
    term = await lease.acquire(writer, "a", 0.2)
    async with writer.transaction() as connection:
        await lease.require_term(connection, term)
        await until(lambda: _is_free(writer))
        taking = asyncio.create_task(lease.acquire(taker, "b", 30))
        await until(lambda: _somebody_waits(writer))
        assert not taking.done()
    assert await taking > term
    await writer.close()
    await taker.close()


async def _is_free(database: Database) -> bool:
    return await lease.leader(database) is None


async def _somebody_waits(database: Database) -> bool:
    async with database.single() as connection:
        return (await connection.exec_driver_sql("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one() > 0


@pytest.mark.parametrize("previous", [0, 5, 11])
async def test_a_plan_follows_the_newest_or_is_refused(database, previous):
    """A leader whose memory of the newest plan is wrong begins anew; the chain has no forks and no gaps."""
    term = await lead(database)
    await plans.publish(database, b"{}", plan(10, 0), [], term)
    with pytest.raises(lease.Fenced, match="newest stored is 10"):
        await plans.publish(database, b"{}", plan(12, previous), [], term)
    await plans.publish(database, b"{}", plan(12, 10), [], term)
    assert [stored.plan.epoch for stored in await plans.plans_since(database, 0)] == [10, 12]


async def test_after_a_restore_from_backup_terms_and_epochs_go_on_upwards(database):
    """The database forgot the newest plans and the last leader; neither its term nor an epoch of that time returns."""
    lost_term = await lead(database, "a")
    now_s = await database.now_ms() // 1000
    await plans.publish(database, b"{}", plan(now_s - 50, 0), [], lost_term)
    async with database.transaction() as connection:
        # A backup from when term 3 led and nothing of this was written.
        await connection.execute(update(tables.leases).values(term=3, holder="z", expires_at=tables.NOW))
        await connection.execute(tables.plans.delete())
    with pytest.raises(lease.Fenced):
        await plans.publish(database, b"{}", plan(now_s, now_s - 50), [], lost_term)
    new_term = await lead(database, "b")
    assert new_term >= lost_term
    assert await plans.latest_plan(database) is None
    epoch = max(0 + 1, await database.now_ms() // 1000)
    await plans.publish(database, b"{}", plan(epoch, 0), [], new_term)
    assert epoch > now_s - 50


async def test_epochs_grow_by_the_databases_own_rule(database):
    """A plan that does not grow breaks a constraint, whoever asks."""
    term = await lead(database)
    with pytest.raises(Exception, match="epoch_grows"):
        await plans.publish(database, b"{}", plan(0, 0), [], term)


async def test_plans_are_found_by_epoch_and_by_moment(database):
    """The plan in force at a moment is the last one published before it."""
    term = await lead(database)
    for epoch, previous in ((1, 0), (2, 1), (3, 2)):
        await plans.publish(database, b"{}", plan(epoch, previous), [], term)
        stored = await plans.latest_plan(database)
        while await database.now_ms() <= stored.at_ms:
            await asyncio.sleep(0)
    second = await plans.plan_of(database, 2)
    assert (await plans.plan_at(database, second.at_ms)).plan.epoch == 2
    assert (await plans.plan_at(database, second.at_ms - 1)).plan.epoch == 1
    assert (await plans.plan_at(database, second.at_ms + 60_000)).plan.epoch == 3
    assert await plans.plan_at(database, 1) is None
    assert await plans.plan_of(database, 9) is None
    assert [stored.plan.epoch for stored in await plans.plans_since(database, 1, limit=1)] == [2]


def test_the_content_hash_is_of_what_is_published():
    """Epoch, term and time do not change it; a region does."""
    assert plans.content_hash(plan(1, 0, term=1)) == plans.content_hash(plan(9, 8, term=4))
    assert plans.content_hash(plan(1, 0)) != plans.content_hash(plan(1, 0, region="us-east-1"))


def test_a_plan_survives_its_encoding():
    """What is stored decodes to an equal plan."""
    original = plan(1, 0)
    assert msgspec.json.decode(msgspec.json.encode(original), type=type(original)) == original
