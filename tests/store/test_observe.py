"""One read for each tick: everything of one moment, and nothing twice, across leaders too."""

from __future__ import annotations

import msgspec
import pytest
from sqlalchemy import text

from director.core.observations import DemandSample, Outcome, ProbeResult
from director.store import demand, lease, operators, outcomes, plans, policies, probes, reports
from director.store.observe import Observer
from tests.store.builders import policy, report

pytestmark = pytest.mark.postgres


async def put(database, region: str, item) -> None:
    await reports.put_report(database, region, item, msgspec.json.encode(item))


async def test_everything_that_came_in_is_observed(database):
    """Reports, demand, settings, probes, outcomes and the policy's version, at the database's time."""
    before_ms = await database.now_ms()
    await put(database, "eu-west-1", report(1))
    setting = await operators.put(database, "eu-west-1", "down", who="ann", reason="fire")
    sample = DemandSample("a", 1, 1_000, ())
    await demand.put(database, sample)
    outcome = Outcome("edge", "eu-west-1", "llama", "1", "ok", 2)
    await outcomes.put_batch(database, "edge", "b", [outcome])
    probe = ProbeResult("a", "eu-west-1", before_ms, True)
    await probes.put(database, [probe])
    await policies.add(database, {}, policy(), "ann", "first")

    observed = await Observer(database).observe()
    assert before_ms <= observed.now_ms <= await database.now_ms()
    seen = observed.observations
    assert [item.region for item in seen.reports] == ["eu-west-1"]
    assert (seen.demand, seen.operators, seen.outcomes, seen.probes) == ((sample,), (setting,), (outcome,), (probe,))
    assert seen.policy_version == 1


async def test_reports_and_settings_stand_and_the_rest_is_read_once(database):
    """The newest report of each region is in every observation; demand, probes and outcomes in one."""
    await put(database, "eu-west-1", report(1))
    await demand.put(database, DemandSample("a", 1, 1_000, ()))
    observer = Observer(database)
    first = (await observer.observe()).observations
    second = (await observer.observe()).observations
    assert second.reports == first.reports
    assert second.reports[0] is first.reports[0]
    assert (len(first.demand), len(second.demand)) == (1, 0)


async def test_a_changed_region_is_read_anew_and_a_forgotten_one_is_gone(database):
    """The memory of reports follows the database."""
    await put(database, "a", report(1))
    await put(database, "b", report(1))
    observer = Observer(database)
    await observer.observe()
    await put(database, "a", report(2, ready=0))
    await reports.forget_region(database, "b")
    (only,) = (await observer.observe()).observations.reports
    assert only.report == report(2, ready=0)


async def test_the_next_leader_goes_on_where_the_last_one_was(database):
    """Cursors are stored with the state: what the last leader planned with is not counted again."""
    await demand.put(database, DemandSample("a", 1, 1_000, ()))
    term = await lease.acquire(database, "one", 30)
    observed = await Observer(database).observe()
    await plans.publish(database, b"{}", None, [], term, observed.cursors)
    later = DemandSample("a", 2, 1_000, ())
    await demand.put(database, later)
    state = await plans.load_state(database)
    assert (await Observer(database, state.cursors).observe()).observations.demand == (later,)


async def test_an_observer_of_an_empty_database_misses_nothing_that_comes(database):
    """From the first observation on, each row is seen."""
    observer = Observer(database)
    assert (await observer.observe()).observations.demand == ()
    await demand.put(database, DemandSample("a", 1, 1_000, ()))
    assert len((await observer.observe()).observations.demand) == 1


async def test_a_reader_without_a_cursor_never_reads_what_is_old(database):
    """Neither at first nor later: what lay there before the last seconds is left alone."""
    await demand.put(database, DemandSample("old", 1, 1_000, ()))
    async with database.transaction() as connection:
        await connection.execute(text("UPDATE demand SET received_at = received_at - interval '1 minute'"))
    observer = Observer(database)
    assert (await observer.observe()).observations.demand == ()
    assert (await observer.observe()).observations.demand == ()
    young = DemandSample("young", 1, 1_000, ())
    await demand.put(database, young)
    assert (await observer.observe()).observations.demand == (young,)
