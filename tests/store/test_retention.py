"""What is past its time goes, and nothing else."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select, text, update

from director.core.observations import DemandSample, ProbeResult
from director.store import demand, events, keys, lease, outcomes, plans, probes, reports, retention, tables, tokens
from tests.store.builders import event, plan, report

pytestmark = pytest.mark.postgres


async def count(database, table) -> int:
    async with database.single() as connection:
        return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


async def fill(database) -> None:
    now_ms = await database.now_ms()
    term = await lease.acquire(database, "a", 30)
    await plans.publish(database, b"{}", plan(1, 0), [], term)
    await plans.publish(database, b"{}", plan(2, 1, region="us-east-1"), [], term)
    await reports.put_report(database, "r", report(1), b"{}")
    await events.append(database, event("why", at_ms=now_ms))
    await demand.put(database, DemandSample("a", 1, 1_000, ()))
    await outcomes.put_batch(database, "edge", "b", ())
    await probes.put(database, [ProbeResult("a", "r", now_ms, True)])
    await tokens.create(database, "live", ["read"])
    await tokens.create(database, "gone", ["read"])
    await tokens.revoke(database, "gone")
    await keys.ensure(database)


async def age_everything(database, days: int) -> None:
    async with database.transaction() as connection:
        for table in tables.metadata.sorted_tables:
            for column in table.columns:
                if column.name in ("at", "received_at", "revoked_at", "retired_at", "last_seen_at"):
                    await connection.execute(update(table).values({column: column - text(f"interval '{days} days'")}))


async def test_what_is_young_stays(database):
    """Right after it was written nothing is deleted."""
    await fill(database)
    assert await retention.prune_all(database) == {}


async def test_what_is_old_goes_and_the_newest_plan_stays(database):
    """After a quiet year: the plan in force, the newest reports, live tokens and keys are there; the rest is not."""
    await fill(database)
    await age_everything(database, 365)
    gone = await retention.prune_all(database)
    assert gone == {
        "report_history": 1,
        "events": 1,
        "plans": 1,
        "demand": 1,
        "outcome_batches": 1,
        "probes": 1,
        "tokens": 1,
    }
    assert (await plans.latest_plan(database)).plan.epoch == 2
    assert len(await reports.latest_reports(database)) == 1
    assert [record.name for record in await tokens.all_hashes(database)] == ["live"]
    assert await keys.load(database) is not None


async def test_plans_outlive_demand(database):
    """After two days demand and history are gone, events and plans are not."""
    await fill(database)
    await age_everything(database, 2)
    gone = await retention.prune_all(database)
    assert gone.keys() == {"report_history", "demand", "outcome_batches", "probes"}


async def test_more_than_one_batch_is_deleted(database):
    """Deleting in batches ends when there is nothing left."""
    rows = retention.BATCH_ROWS * 2 + 1
    insert = "INSERT INTO demand (replica, content, received_at) SELECT 'a', '{}', now() - interval '1 day'"
    async with database.transaction() as connection:
        await connection.execute(text(f"{insert} FROM generate_series(1, {rows})"))
    assert await retention.prune_all(database) == {"demand": rows}
    assert await count(database, tables.demand) == 0
