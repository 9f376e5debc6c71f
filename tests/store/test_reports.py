"""Reports: taken whole, in order, once."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from director.store import reports, tables
from director.store.database import Database
from tests.store.builders import report

pytestmark = pytest.mark.postgres


async def put(database: Database, region: str, item) -> str:
    return await reports.put_report(database, region, item, msgspec.json.encode(item))


async def served(database: Database, region: str) -> set[tuple[str, str]]:
    table = tables.deployments
    async with database.single() as connection:
        rows = await connection.execute(select(table.c.model, table.c.version).where(table.c.region == region))
        return {(row[0], row[1]) for row in rows}


async def test_a_report_becomes_the_regions_newest(database):
    """What was put is what is read, stamped with the database's time of receipt."""
    before_ms = await database.now_ms()
    assert await put(database, "eu-west-1", report(1)) == "accepted"
    after_ms = await database.now_ms()
    (received,) = await reports.latest_reports(database)
    assert received.region == "eu-west-1"
    assert received.report == report(1)
    assert before_ms <= received.received_at_ms <= after_ms


async def test_a_retry_is_harmless(database):
    """The same (boot id, sequence) again is a duplicate, and leaves the time of receipt as it was."""
    await put(database, "eu-west-1", report(7))
    (first,) = await reports.latest_reports(database)
    assert await put(database, "eu-west-1", report(7, ready=0)) == "duplicate"
    assert await reports.latest_reports(database) == [first]


async def test_a_late_retry_of_an_earlier_report_is_a_duplicate_too(database):
    """A retry that arrives after newer reports is told that it was seen, not that it is older."""
    for sequence in (1, 2, 3):
        await put(database, "eu-west-1", report(sequence))
    assert await put(database, "eu-west-1", report(2)) == "duplicate"
    await put(database, "eu-west-1", report(1, boot_id="boot-b"))
    assert await put(database, "eu-west-1", report(3)) == "duplicate"
    (newest,) = await reports.latest_reports(database)
    assert newest.report.boot_id == "boot-b"


async def test_an_older_report_of_the_same_boot_changes_nothing(database):
    """One that was overtaken on the way is refused, and the region serves what the newer one said."""
    await put(database, "eu-west-1", report(5, served=(("llama", "2"),)))
    assert await put(database, "eu-west-1", report(4, served=(("llama", "1"),))) == "older"
    assert await served(database, "eu-west-1") == {("llama", "2")}


async def test_another_boot_wins_whatever_its_sequence(database):
    """An agent that starts anew counts from its own beginning."""
    await put(database, "eu-west-1", report(9_000))
    assert await put(database, "eu-west-1", report(1, boot_id="boot-b")) == "accepted"
    (newest,) = await reports.latest_reports(database)
    assert (newest.report.boot_id, newest.report.sequence) == ("boot-b", 1)


async def test_a_report_replaces_the_regions_deployments_whole(database):
    """One no longer listed is gone; another region's stay."""
    await put(database, "eu-west-1", report(1, served=(("llama", "1"), ("llama", "2"))))
    await put(database, "us-east-1", report(1, served=(("llama", "1"),)))
    await put(database, "eu-west-1", report(2, served=(("llama", "2"), ("qwen", "1"))))
    assert await served(database, "eu-west-1") == {("llama", "2"), ("qwen", "1")}
    assert await served(database, "us-east-1") == {("llama", "1")}
    await put(database, "eu-west-1", report(3, served=()))
    assert await served(database, "eu-west-1") == set()


async def test_deployments_that_did_not_change_are_not_written(database):
    """Rows keep their `changed_at` while nothing about them changes: quiet hours write nothing here."""
    table = tables.deployments

    async def changed_at():
        async with database.single() as connection:
            return (await connection.execute(select(table.c.changed_at))).scalar_one()

    await put(database, "eu-west-1", report(1))
    first = await changed_at()
    await put(database, "eu-west-1", report(2))
    assert await changed_at() == first
    await put(database, "eu-west-1", report(3, ready=1))
    assert await changed_at() > first


async def test_history_tells_what_a_region_said_at_a_moment(database):
    """The newest body at or before the moment, exactly as it came, and None before the first."""
    await reports.put_report(database, "eu-west-1", report(1), b'{"first": 1}')
    (first,) = await reports.latest_reports(database)
    while await database.now_ms() <= first.received_at_ms:
        await asyncio.sleep(0)
    await reports.put_report(database, "eu-west-1", report(2), b'{"second": 2}')
    at = first.received_at_ms
    assert await reports.report_at(database, "eu-west-1", at) == (at, b'{"first": 1}')
    assert (await reports.report_at(database, "eu-west-1", at + 60_000))[1] == b'{"second": 2}'
    assert await reports.report_at(database, "eu-west-1", at - 1) is None


async def test_regions_keep_when_they_were_first_and_last_heard(database):
    """First stays, last moves, and duplicates move nothing."""
    await put(database, "eu-west-1", report(1))
    (first,) = await reports.regions_seen(database)
    await put(database, "eu-west-1", report(1))
    assert await reports.regions_seen(database) == [first]
    while await database.now_ms() <= first.last_seen_at_ms:
        await asyncio.sleep(0)
    await put(database, "eu-west-1", report(2))
    (second,) = await reports.regions_seen(database)
    assert second.first_seen_at_ms == first.first_seen_at_ms
    assert second.last_seen_at_ms > first.last_seen_at_ms


async def test_a_region_can_be_forgotten(database):
    """Nothing of it is left, and its next report is a first one."""
    await put(database, "eu-west-1", report(3))
    assert await reports.forget_region(database, "eu-west-1")
    assert await reports.latest_reports(database) == []
    assert await served(database, "eu-west-1") == set()
    assert not await reports.forget_region(database, "eu-west-1")
    assert await put(database, "eu-west-1", report(1)) == "accepted"


async def test_simultaneous_reports_leave_the_newest(database):
    """Ten reports at once, in any order: the region ends at the greatest sequence, and at its deployments."""
    items = [report(sequence, served=(("llama", str(sequence)),)) for sequence in (3, 9, 1, 10, 2, 8, 5, 4, 7, 6)]
    receipts = await asyncio.gather(*(put(database, "eu-west-1", item) for item in items))
    assert "accepted" in receipts
    (newest,) = await reports.latest_reports(database)
    assert newest.report.sequence == 10
    assert await served(database, "eu-west-1") == {("llama", "10")}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arrivals=st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5), st.sets(st.sampled_from("xyz"))), max_size=12
    )
)
async def test_receipts_follow_the_rule(database, arrivals):
    """Invariant: each boot goes forward only, each pair is accepted once, and the newest is the last accepted."""
    await reports.forget_region(database, "r")
    accepted: list[tuple[str, int]] = []
    for boot_id, sequence, models in arrivals:
        item = report(sequence, boot_id=boot_id, served=tuple((model, "1") for model in sorted(models)))
        receipt = await put(database, "r", item)
        if (boot_id, sequence) in accepted:
            assert receipt == "duplicate"
        elif any(boot_id == boot and sequence < newer for boot, newer in accepted):
            assert receipt == "older"
        else:
            assert receipt == "accepted"
            accepted.append((boot_id, sequence))
            assert await served(database, "r") == {(model, "1") for model in models}
    newest = await reports.latest_reports(database)
    assert [(item.report.boot_id, item.report.sequence) for item in newest] == accepted[-1:]
