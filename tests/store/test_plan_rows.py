"""Plans are kept compactly, and come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.store import lease, plan_rows, plans, retention, tables
from director.store.database import Database
from tests.store.builders import event


def fleet(epoch: int, capacities: list[float], *, regions: tuple[str, ...] = ("r",), made_at_ms: int = 0) -> Plan:
    """A plan with one deployment for each capacity."""
    return Plan(
        epoch=epoch,
        previous=epoch - 1,
        term=1,
        policy=1,
        made_at_ms=made_at_ms,
        regions=tuple(RegionPlan(region, "fresh") for region in regions),
        deployments=tuple(
            DeploymentPlan("r", "m", str(index), capacity_tokens_per_s=value) for index, value in enumerate(capacities)
        ),
    )


capacities = st.lists(st.sampled_from([1.0, 2.5, 1e6]), max_size=6)
fleets = st.builds(
    fleet,
    st.integers(2, 99),
    capacities,
    regions=st.sampled_from([("r",), ("r", "s"), ("t",)]),
    made_at_ms=st.sampled_from([0, 1_000, plan_rows.BASE_MS_MAX + 1]),
)


@given(plan=fleets, base=st.none() | fleets)
def test_whatever_the_base_a_plan_comes_back_as_it_was(plan, base):
    """Invariant: decoding what was encoded gives an equal plan."""
    content, base_epoch = plan_rows.encode(plan, base)
    if base_epoch is None:
        assert plan_rows.decode_whole(content) == plan
    else:
        assert base_epoch == base.epoch
        assert plan_rows.decode_change(content, base) == plan


def test_a_small_change_is_stored_small():
    """One of forty deployments changed: its row is a tenth of a whole one, at most."""
    base = fleet(1, [1.0] * 40)
    changed = fleet(2, [1.0] * 39 + [2.0])
    whole, _ = plan_rows.encode(changed, None)
    small, base_epoch = plan_rows.encode(changed, base)
    assert base_epoch == 1
    assert len(small) < len(whole) / 10


@pytest.mark.parametrize(
    "plan",
    [
        fleet(2, [2.0] * 4),
        fleet(2, [1.0] * 5),
        fleet(2, [1.0] * 4, regions=("r", "s")),
        fleet(2, [1.0] * 4, made_at_ms=plan_rows.BASE_MS_MAX + 1),
    ],
    ids=["most changed", "a deployment more", "a region more", "an old base"],
)
def test_a_large_change_or_an_old_base_makes_a_new_base(plan):
    """Then the plan is stored whole."""
    assert plan_rows.encode(plan, fleet(1, [1.0] * 4))[1] is None


async def publish(database: Database, term: int, *plans_: Plan) -> None:
    for plan in plans_:
        await plans.publish(database, b"{}", plan, [], term)


async def bases(database: Database) -> dict[int, int | None]:
    async with database.single() as connection:
        rows = await connection.execute(select(tables.plans.c.epoch, tables.plans.c.base))
        return {row.epoch: row.base for row in rows}


@pytest.mark.postgres
async def test_plans_are_read_whole_by_whoever_comes(database, postgres_url):
    """By the writer, by a reader that remembers nothing, and by one that saw another base."""
    history = [
        fleet(1, [1.0] * 8),
        fleet(2, [1.0] * 7 + [2.0]),
        fleet(3, [5.0] * 8),
        fleet(4, [5.0] * 7 + [6.0]),
        fleet(5, [5.0] * 6 + [6.0] * 2),
    ]
    term = await lease.acquire(database, "a", 60)
    await publish(database, term, *history)
    assert await bases(database) == {1: None, 2: 1, 3: None, 4: 3, 5: 3}
    stranger = Database(postgres_url)
    for reader in (database, stranger):
        assert (await plans.plan_of(reader, 2)).plan == history[1]
        assert (await plans.latest_plan(reader)).plan == history[4]
        assert [stored.plan for stored in await plans.plans_since(reader, 0)] == history
        assert {stored.content_hash for stored in await plans.plans_since(reader, 4)} == {
            plans.content_hash(history[4])
        }
    await stranger.close()


@pytest.mark.postgres
async def test_a_new_leader_goes_on_from_the_stored_base(database, postgres_url):
    """It needs no memory of the last one's plans to store a small change."""
    term = await lease.acquire(database, "a", 60)
    await publish(database, term, fleet(1, [1.0] * 8), fleet(2, [1.0] * 7 + [2.0]))
    other = Database(postgres_url)
    await publish(other, term, fleet(3, [1.0] * 7 + [3.0]))
    assert await bases(other) == {1: None, 2: 1, 3: 1}
    assert (await plans.latest_plan(database)).plan == fleet(3, [1.0] * 7 + [3.0])
    await other.close()


@pytest.mark.postgres
async def test_retention_spares_a_base_until_its_last_change_has_gone(database):
    """An old base of the plan in force stays; one that nothing needs goes."""
    term = await lease.acquire(database, "a", 60)
    last = fleet(4, [5.0] * 7 + [6.0])
    await publish(database, term, fleet(1, [1.0] * 8), fleet(2, [1.0] * 7 + [2.0]), fleet(3, [5.0] * 8), last)
    async with database.transaction() as connection:
        await connection.execute(text("UPDATE plans SET at = at - interval '1 year'"))
    for _ in range(3):
        await retention.prune_all(database)
    assert await bases(database) == {3: None, 4: 3}
    assert (await plans.latest_plan(database)).plan == last


@pytest.mark.postgres
async def test_a_publication_that_was_rolled_back_leaves_no_false_memory(database):
    """A new base whose transaction failed is not taken for stored by the next plan."""
    term = await lease.acquire(database, "a", 60)
    await publish(database, term, fleet(1, [1.0] * 8))
    with pytest.raises(DBAPIError):
        await plans.publish(database, b"{}", fleet(2, [5.0] * 8), [event("NUL is not text: \0")], term)
    await publish(database, term, fleet(2, [1.0] * 7 + [9.0]))
    assert await bases(database) == {1: None, 2: 1}
    assert (await plans.latest_plan(database)).plan == fleet(2, [1.0] * 7 + [9.0])
