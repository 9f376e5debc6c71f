"""Policies, tokens, keys, operators, events, demand, outcomes, probes."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import select, update

from director.core.observations import DemandSample, DeploymentTokens, Outcome, ProbeResult, RouteDemand
from director.core.request import RouteKey
from director.store import demand, events, keys, operators, outcomes, policies, probes, tables, tokens
from director.store.database import Database
from tests.store.builders import event, policy

pytestmark = pytest.mark.postgres


async def test_policies_are_versions_that_never_change(database):
    """Each addition is the next version, with its files and meaning; the newest is in force."""
    assert await policies.current(database) is None
    assert await policies.current_version(database) is None
    files = {"a.yaml": "regions: {}\n# Grüße\n"}
    assert await policies.add(database, files, policy(), "ann", "first") == 1
    assert await policies.add(database, {}, policy("us-east-1"), "bob", "second") == 2
    first = await policies.get(database, 1)
    assert (first.files, first.policy, first.who, first.why) == (files, policy(), "ann", "first")
    assert (await policies.current(database)).policy == policy("us-east-1")
    assert await policies.current_version(database) == 2
    assert [item.version for item in await policies.history(database)] == [2, 1]
    assert await policies.get(database, 3) is None


async def test_a_new_policy_is_an_event(database):
    """With who, why, and the versions before and after."""
    await policies.add(database, {}, policy(), "ann", "first")
    await policies.add(database, {}, policy(), "bob", "second")
    stored = [item.event for item in await events.list_events(database)]
    assert [(item.kind, item.who, item.why, item.before, item.after) for item in stored] == [
        ("policy", "ann", "first", None, "1"),
        ("policy", "bob", "second", "1", "2"),
    ]


async def test_simultaneous_policies_get_versions_of_their_own(postgres_url):
    """Five at once are five versions without a gap."""
    databases = [Database(postgres_url, pool_size=1) for _ in range(5)]
    made = await asyncio.gather(*(policies.add(db, {}, policy(), "x", "y") for db in databases))
    assert sorted(made) == [1, 2, 3, 4, 5]
    await asyncio.gather(*(db.close() for db in databases))


async def test_tokens_are_stored_as_hashes_only(database):
    """The plaintext is in no column of no row; its SHA-256 is."""
    from hashlib import sha256

    plaintext = await tokens.create(database, "edge", ["decide:acme"], trusted_headers=True)
    async with database.single() as connection:
        (row,) = (await connection.execute(select(tables.tokens))).all()
    assert not any(plaintext in str(value) or plaintext.removeprefix("rd_") in str(value) for value in row)
    (record,) = await tokens.all_hashes(database)
    assert record.hash == sha256(plaintext.encode()).hexdigest()
    assert (record.name, record.scopes, record.trusted_headers) == ("edge", ("decide:acme",), True)


async def test_a_revoked_or_expired_token_is_not_handed_to_replicas(database):
    """Expiry is by the database's clock; revoked ones stay listed for those who ask."""
    now_ms = await database.now_ms()
    await tokens.create(database, "old", ["read"], expires_at_ms=now_ms - 1)
    await tokens.create(database, "gone", ["read"])
    await tokens.create(database, "live", ["read"], expires_at_ms=now_ms + 60_000)
    assert await tokens.revoke(database, "gone")
    assert not await tokens.revoke(database, "gone")
    assert [record.name for record in await tokens.all_hashes(database)] == ["live"]
    assert {info.name for info in await tokens.list_tokens(database)} == {"old", "live"}
    everything = {info.name: info for info in await tokens.list_tokens(database, revoked=True)}
    assert everything["gone"].revoked_at_ms is not None
    assert everything["live"].expires_at_ms == now_ms + 60_000


async def test_a_tokens_name_is_taken_while_it_lives(database):
    """A second of that name is refused, unless it is to replace the first, which then ends."""
    first = await tokens.create(database, "edge", ["read"])
    with pytest.raises(tokens.TokenNameTaken, match="edge"):
        await tokens.create(database, "edge", ["read"])
    second = await tokens.create(database, "edge", ["operate"], replace=True)
    assert first != second
    (record,) = await tokens.all_hashes(database)
    assert record.scopes == ("operate",)


async def test_the_first_key_is_made_once(postgres_url):
    """Replicas that start at once agree on one key."""
    databases = [Database(postgres_url, pool_size=1) for _ in range(4)]
    assert await keys.load(databases[0]) is None
    rings = await asyncio.gather(*(keys.ensure(db) for db in databases))
    assert all(ring == rings[0] for ring in rings)
    assert len(rings[0].keys) == 1
    assert len(rings[0].keys[rings[0].current]) == 32
    await asyncio.gather(*(db.close() for db in databases))


async def test_a_new_key_verifies_before_it_signs(database):
    """Until it settles the old one signs; afterwards the new one; the old goes on verifying until it is retired."""
    first = await keys.ensure(database)
    rotated = await keys.rotate(database, settles_s=3_600)
    assert rotated.current == first.current
    assert len(rotated.keys) == 2
    (new,) = rotated.keys.keys() - first.keys.keys()
    table = tables.affinity_keys
    async with database.transaction() as connection:
        await connection.execute(update(table).where(table.c.id == new).values(signs_from=tables.NOW))
    settled = await keys.load(database)
    assert settled.current == new
    assert settled.keys == rotated.keys
    async with database.transaction() as connection:
        await connection.execute(update(table).where(table.c.id == first.current).values(retired_at=tables.NOW))
    assert set((await keys.load(database)).keys) == {new}


async def test_a_rotation_at_once_signs_at_once(database):
    """Without a time to settle the new key signs."""
    first = await keys.ensure(database)
    rotated = await keys.rotate(database, settles_s=0)
    assert rotated.current not in first.keys
    assert first.keys.items() <= rotated.keys.items()


async def test_operators_settings_are_set_replaced_and_cleared(database):
    """One of a kind for each region; each change returns what stands, and clearing returns what stood."""
    drained = await operators.put(database, "eu-west-1", "drain", who="ann", reason="kernel", deadline_s=60)
    assert drained.deadline_ms - drained.set_at_ms == pytest.approx(60_000, abs=50)
    await operators.put(database, "eu-west-1", "cap", who="ann", reason="careful", share=0.25)
    again = await operators.put(database, "eu-west-1", "drain", who="bob", reason="longer")
    assert again.deadline_ms is None
    listed = await operators.list_settings(database)
    assert [(item.kind, item.who, item.share) for item in listed] == [("cap", "ann", 0.25), ("drain", "bob", None)]
    assert await operators.clear(database, "eu-west-1", "drain", who="bob", reason="done") == again
    assert await operators.clear(database, "eu-west-1", "drain", who="bob", reason="done") is None
    assert [item.kind for item in await operators.list_settings(database)] == ["cap"]


async def test_each_operators_act_is_an_event(database):
    """Who, why, before and after; clearing what is not set is none."""
    await operators.put(database, "r", "cap", who="ann", reason="careful", share=0.25)
    await operators.put(database, "r", "cap", who="ann", reason="bolder", share=0.5)
    await operators.clear(database, "r", "cap", who="bob", reason="fine")
    await operators.clear(database, "r", "cap", who="bob", reason="fine")
    found = [item.event for item in await events.list_events(database, region="r")]
    assert [(item.kind, item.who, item.why, item.before, item.after) for item in found] == [
        ("cap", "ann", "careful", None, "cap 0.25"),
        ("cap", "ann", "bolder", "cap 0.25", "cap 0.5"),
        ("uncap", "bob", "fine", "cap 0.5", None),
    ]


async def test_events_are_listed_by_id_time_region_and_kind(database):
    """Without a starting point the newest, oldest of them first; with one, those right after it."""
    for index in range(5):
        kind = "shed" if index % 2 else "breaker"
        await events.append(database, event(f"e{index}", kind=kind, region=f"r{index % 2}", at_ms=1_000 * index))
    assert [item.event.why for item in await events.list_events(database, limit=2)] == ["e3", "e4"]
    everything = await events.list_events(database)
    assert [item.event.why for item in everything] == ["e0", "e1", "e2", "e3", "e4"]
    after = await events.list_events(database, since_id=everything[0].id, limit=2)
    assert [item.event.why for item in after] == ["e1", "e2"]
    assert [item.event.why for item in await events.list_events(database, kind="shed")] == ["e1", "e3"]
    assert [item.event.why for item in await events.list_events(database, region="r0")] == ["e0", "e2", "e4"]
    between = await events.list_events(database, since_ms=1_000, until_ms=3_000)
    assert [item.event.at_ms for item in between] == [1_000, 2_000, 3_000]
    assert await events.newest_event_id(database) == everything[-1].id


async def test_a_follower_misses_no_event_of_simultaneous_writers(postgres_url):
    """Ids become visible in their order: following by id sees each event once, however many write at once."""
    writers = [Database(postgres_url, pool_size=1) for _ in range(6)]
    reader = Database(postgres_url, pool_size=1)
    await asyncio.gather(*(db.now_ms() for db in writers))

    async def write(number: int) -> None:
        for index in range(15):
            await events.append(writers[number], event(f"{number}/{index}"), event(f"{number}/{index}b"))

    writing = asyncio.gather(*(write(number) for number in range(len(writers))))
    seen: list[str] = []
    cursor = 0
    while True:
        finished = writing.done()
        for stored in await events.list_events(reader, since_id=cursor, limit=50):
            seen.append(stored.event.why)
            cursor = stored.id
        if finished and cursor == await events.newest_event_id(reader):
            break
    await writing
    assert len(seen) == len(set(seen)) == 6 * 15 * 2
    await asyncio.gather(*(db.close() for db in (*writers, reader)))


def sample(replica: str, tokens_: float) -> DemandSample:
    route = RouteKey("acme", ("EU",), "llama", "*", None, "europe")
    share = (DeploymentTokens("eu-west-1", "1", tokens_),)
    return DemandSample(replica, 1_000, 1_000, (RouteDemand(route, 3, tokens_, decided=share),))


async def test_demand_is_read_once_by_a_cursor(database):
    """Samples come back whole and in order, and not twice; a reader that starts gets the last seconds'."""
    assert await demand.since(database, None) == ((), 0)
    await demand.put(database, sample("a", 1.0))
    await demand.put(database, sample("b", 2.0))
    first, cursor = await demand.since(database, None)
    assert first == (sample("a", 1.0), sample("b", 2.0))
    await demand.put(database, sample("a", 3.0))
    second, cursor = await demand.since(database, cursor)
    assert second == (sample("a", 3.0),)
    assert await demand.since(database, cursor) == ((), cursor)


async def test_a_batch_of_outcomes_counts_once(database):
    """The same id of the same reporter again is not counted; another reporter's is."""
    seen = (Outcome("edge-1", "eu-west-1", "llama", "1", "timeout", 3, retry_after_s=2.0),)
    assert await outcomes.put_batch(database, "edge-1", "b1", seen)
    assert not await outcomes.put_batch(database, "edge-1", "b1", seen)
    assert await outcomes.put_batch(database, "edge-2", "b1", ())
    found, cursor = await outcomes.since(database, None)
    assert found == seen
    assert await outcomes.since(database, cursor) == ((), cursor)


async def test_simultaneous_copies_of_a_batch_count_once(database):
    """A retry that overtakes its first attempt does not count twice."""
    seen = (Outcome("edge-1", "eu-west-1", "llama", "1", "ok", 1),)
    taken = await asyncio.gather(*(outcomes.put_batch(database, "edge-1", "b", seen) for _ in range(4)))
    assert sorted(taken) == [False, False, False, True]


async def test_probes_are_read_once_by_a_cursor(database):
    """Results come back as they were put."""
    now_ms = await database.now_ms()
    results = (ProbeResult("a", "eu-west-1", now_ms, True), ProbeResult("a", "us-east-1", now_ms, False))
    await probes.put(database, results)
    await probes.put(database, ())
    found, cursor = await probes.since(database, None)
    assert found == results
    assert await probes.since(database, cursor) == ((), cursor)
