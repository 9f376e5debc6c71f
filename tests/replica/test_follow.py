from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from director.core.plan import Plan
from director.core.policy import Policy
from director.replica.follow import Follower
from director.replica.replica import Replica
from director.replica.run import running_replica
from director.store import demand, keys, lease, plans, policies, tokens
from director.store.database import Database, SchemaMissing
from director.store.embedded import EmbeddedPostgres
from director.store.migrate import upgrade
from tests.replica.worlds import POLICY, REQUEST, plan

pytestmark = pytest.mark.postgres

NOWHERE = "postgresql://director@/postgres?host=/nonexistent"


class Leader:
    """Publishes plans as a planner would."""

    def __init__(self, database: Database, term: int) -> None:
        self._database = database
        self._term = term
        self._previous = 0

    @classmethod
    async def start(cls, database: Database) -> Leader:
        await keys.ensure(database)
        await policies.add(database, {"a.yaml": ""}, POLICY, "test", "first")
        term = await lease.acquire(database, "leader", 60.0)
        assert term is not None
        return cls(database, term)

    async def publish(self, epoch: int | None = None, **changes: object) -> Plan:
        made = plan(epoch or self._previous + 1, **{"previous": self._previous, **changes})  # type: ignore[arg-type]
        await plans.publish(self._database, b"[]", made, [], self._term)
        self._previous = made.epoch
        return made

    async def beat(self) -> None:
        await plans.publish(self._database, b"[]", None, [], self._term)


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> float:
    """Wait for a condition; how long it took, s."""
    started_s = time.monotonic()
    while not condition():
        assert time.monotonic() - started_s < within_s, "did not come true in time"
        await asyncio.sleep(0.01)
    return time.monotonic() - started_s


@contextlib.asynccontextmanager
async def following(database: Database, path: Path | None = None) -> AsyncIterator[tuple[Replica, Follower]]:
    replica = Replica("r1", database)
    follower = Follower(replica, database, snapshot_path=path)
    task = asyncio.create_task(follower.run())
    try:
        yield replica, follower
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def epoch_of(replica: Replica) -> int:
    return replica.table.plan.epoch if replica.table is not None else 0


async def test_a_published_plan_is_served_within_moments(database: Database) -> None:
    """NOTIFY brings a plan in well under the second that a poll would take."""
    leader = await Leader.start(database)
    await leader.publish()
    async with following(database) as (replica, _):
        await until(lambda: epoch_of(replica) == 1)
        await asyncio.sleep(0.2)
        taken_s = []
        for epoch in (2, 3, 4):
            await leader.publish()
            taken_s.append(await until(lambda wanted=epoch: epoch_of(replica) == wanted))
        assert min(taken_s) < 0.5
        assert replica.readiness().status == "ready"
        assert not replica.static
        assert replica.policy_version == 1
        assert replica.plan_age_ms() < 3_000


async def test_following_survives_a_listener_that_breaks(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notifications are the quick path only: when listening fails for good, polls still bring every plan."""

    async def broken(*_: object) -> AsyncIterator[tuple[str, str]]:
        raise ZeroDivisionError
        yield "plan", ""

    monkeypatch.setattr("director.store.notify.listen", broken)
    leader = await Leader.start(database)
    async with following(database) as (replica, _):
        for epoch in (1, 2):
            await leader.publish()
            await until(lambda wanted=epoch: epoch_of(replica) == wanted, within_s=4)


async def test_it_waits_for_a_migration(empty_postgres_url: str) -> None:
    """A replica that starts before the schema is there is degraded, says what to do, and goes on by itself."""
    database = Database(empty_postgres_url)
    try:
        async with following(database) as (replica, follower):
            with pytest.raises(SchemaMissing, match="director migrate"):
                await follower.poll()
            assert replica.degraded
            await asyncio.to_thread(upgrade, empty_postgres_url)
            await until(lambda: not replica.degraded)
    finally:
        await database.close()


async def test_without_any_plan_it_is_not_ready(database: Database) -> None:
    """A fresh database: no table, and readiness says which of the reasons it is."""
    async with following(database) as (replica, _):
        await until(lambda: not replica.degraded)
        assert replica.table is None
        assert replica.readiness().status == "not_ready"
        assert replica.readiness().reasons == ("no_plan",)


async def test_a_plan_in_which_nobody_ever_reported_is_not_served(database: Database) -> None:
    """A plan that knows no region would answer "unknown model" to everything: not ready is the truth (D1 b)."""
    leader = await Leader.start(database)
    await leader.publish(served=False)
    async with following(database) as (replica, _):
        await until(lambda: replica.compiled is not None)
        assert replica.table is None
        assert replica.readiness().reasons == ("no_region_reported",)
        await leader.publish()
        await until(lambda: replica.table is not None)


async def test_a_plan_is_compiled_with_its_own_policy(database: Database) -> None:
    """A plan names its policy version: a newer stored policy waits for a plan that names it."""
    leader = await Leader.start(database)
    await leader.publish()
    newer = Policy(**{**{f: getattr(POLICY, f) for f in POLICY.__struct_fields__}, "default_tenant": "open"})
    assert await policies.add(database, {"a.yaml": "#"}, newer, "test", "second") == 2
    async with following(database) as (replica, _):
        await until(lambda: epoch_of(replica) == 1)
        assert replica.table is not None
        assert replica.table.policy.default_tenant is None
        await leader.publish(policy=2)
        await until(lambda: replica.policy_version == 2)
        assert replica.table.policy.default_tenant == "open"


async def test_a_plan_whose_policy_is_missing_leaves_the_old_one(database: Database) -> None:
    """A restored database may lack a policy version: the replica serves on from what it has."""
    leader = await Leader.start(database)
    await leader.publish()
    async with following(database) as (replica, follower):
        await until(lambda: epoch_of(replica) == 1)
        await leader.publish(policy=77)
        await follower.poll()
        assert epoch_of(replica) == 1


async def test_a_plan_that_cannot_be_compiled_leaves_the_old_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in compiling costs freshness, never the table; the next plan is tried again."""
    leader = await Leader.start(database)
    await leader.publish()
    async with following(database) as (replica, follower):
        await until(lambda: epoch_of(replica) == 1)

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(follower, "_compile", broken)
            await leader.publish()
            await follower.poll()
            assert epoch_of(replica) == 1
        await leader.publish()
        await until(lambda: epoch_of(replica) == 3)


async def test_a_new_token_is_known_at_once_and_a_revoked_one_no_more(database: Database) -> None:
    """Tokens reach a replica by notification."""
    async with following(database) as (replica, _):
        await until(lambda: not replica.degraded)
        token = await tokens.create(database, "edge", ["decide"])
        await until(lambda: replica.tokens.lookup(token.encode()) is not None, within_s=3)
        await tokens.revoke(database, "edge")
        await until(lambda: replica.tokens.lookup(token.encode()) is None, within_s=3)


async def test_a_rotated_key_is_followed_without_a_new_plan(database: Database) -> None:
    """Tokens signed with the new key verify on every replica."""
    leader = await Leader.start(database)
    await leader.publish()
    async with following(database) as (replica, _):
        await until(lambda: epoch_of(replica) == 1)
        ring = await keys.rotate(database, settles_s=0.0)
        await until(lambda: replica.table is not None and replica.table.keyring == ring, within_s=3)
        assert len(ring.keys) == 2


async def test_a_silent_planner_makes_answers_static(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats stop, the database lives: the plan ages, and after the limit every answer says so."""
    monkeypatch.setattr("director.replica.replica.STATIC_AFTER_S", 2.0)
    leader = await Leader.start(database)
    await leader.publish()
    async with following(database) as (replica, follower):

        async def calm() -> bool:
            await leader.beat()
            await follower.poll()
            return not replica.static

        for _ in range(20):  # on a machine that stands still for two seconds, a beat is old when it is seen
            if await calm():
                break
        assert not replica.static
        await until(lambda: replica.static)
        assert replica.readiness().reasons == ("planner_silent",)
        await leader.beat()
        await follower.poll()
        assert not replica.static


async def test_a_plan_marked_static_makes_answers_static(database: Database) -> None:
    """The planner says that the whole fleet went silent."""
    leader = await Leader.start(database)
    await leader.publish(static=True)
    async with following(database) as (replica, _):
        await until(lambda: epoch_of(replica) == 1)
        assert replica.static
        assert replica.readiness().reasons == ("fleet_silent",)


async def test_demand_reaches_the_planner(database: Database) -> None:
    """What was counted is one row, under the replica's name and the database's time."""
    leader = await Leader.start(database)
    await leader.publish()
    async with following(database) as (replica, _):
        await until(lambda: replica.table is not None)
        assert replica.table is not None
        route = replica.table.route(replica.table.route_key(REQUEST))
        replica.count_refusal(route, 70.0)
        deadline_s = time.monotonic() + 5
        while not (samples := (await demand.since(database, None))[0]):
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.05)
    assert [sample.replica for sample in samples] == ["r1"]
    assert samples[0].routes[0].new_tokens == 70.0
    assert abs(samples[0].at_ms - await database.now_ms()) < 3_000


async def test_it_starts_from_its_snapshot_without_a_database(database: Database, tmp_path: Path) -> None:
    """What one run kept on disk, the next serves from, flagged: plan, policy, tokens and keys (D1 a)."""
    leader = await Leader.start(database)
    await leader.publish()
    token = await tokens.create(database, "edge", ["decide"])
    async with running_replica("api", database.url, tmp_path) as first:
        await until(lambda: first.table is not None and first.tokens.lookup(token.encode()) is not None)
    async with running_replica("api", NOWHERE, tmp_path) as second:
        assert epoch_of(second) == 1
        assert second.static
        assert second.degraded
        assert second.readiness().status == "degraded"
        assert second.readiness().reasons == ("database_unavailable", "snapshot")
        assert second.tokens.lookup(token.encode()) is not None
        assert second.table is not None
        assert first.table is not None
        assert second.table.keyring == first.table.keyring


async def test_without_database_and_snapshot_it_is_not_ready(tmp_path: Path) -> None:
    """Never "all up", never an arbitrary region."""
    async with running_replica("api", NOWHERE, tmp_path) as replica:
        assert replica.table is None
        assert replica.readiness().status == "not_ready"


async def test_a_corrupt_snapshot_is_refused_and_kept(database: Database, tmp_path: Path) -> None:
    """It is not served from, and not overwritten by nothing: an operator may want to look at it."""
    leader = await Leader.start(database)
    await leader.publish()
    async with running_replica("api", database.url, tmp_path) as replica:
        await until(lambda: replica.table is not None)
    path = tmp_path / "snapshot-api.json"
    spoiled = path.read_bytes().replace(b"eu-west-1", b"eu-west-2")
    path.write_bytes(spoiled)
    async with running_replica("api", NOWHERE, tmp_path) as replica:
        assert replica.table is None
    assert path.read_bytes() == spoiled


async def test_a_snapshot_gives_way_to_the_live_plan(database: Database, tmp_path: Path) -> None:
    """Once the database answers, the flag goes, whether or not the plan is the same."""
    leader = await Leader.start(database)
    await leader.publish()
    async with running_replica("api", database.url, tmp_path) as replica:
        await until(lambda: replica.table is not None)
    await leader.publish()
    async with running_replica("api", database.url, tmp_path) as replica:
        assert epoch_of(replica) == 2
        assert replica.readiness().status == "ready"


async def test_an_outage_changes_no_answer_and_ends_by_itself(tmp_path: Path) -> None:
    """The server is killed and comes back: the table stays, flagged meanwhile; then the next plan is followed."""
    server = EmbeddedPostgres(tmp_path / "postgres", settings={"fsync": "off"})
    url = await asyncio.to_thread(server.start)
    database = Database(url)
    try:
        await asyncio.to_thread(upgrade, url)
        leader = await Leader.start(database)
        await leader.publish()
        async with following(database, tmp_path / "snapshot.json") as (replica, follower):
            await until(lambda: epoch_of(replica) == 1 and not replica.static)
            before = replica.table
            await asyncio.to_thread(server.stop)
            await until(lambda: replica.degraded)
            assert replica.table is before
            assert replica.static
            assert replica.readiness().reasons == ("database_unavailable",)
            await follower.flush_demand(1_000)
            await asyncio.to_thread(server.start)
            await until(lambda: not replica.degraded, within_s=8)
            await leader.publish()
            await until(lambda: epoch_of(replica) == 2)
            assert not replica.static
    finally:
        await database.close()
        await asyncio.to_thread(server.stop)
