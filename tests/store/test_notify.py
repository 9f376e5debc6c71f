"""Notifications reach followers, and followers outlive the database."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from director.store import keys, lease, notify, operators, plans, policies, reports, tokens
from director.store.database import Database, DatabaseUnavailable
from director.store.embedded import EmbeddedPostgres
from tests.store.builders import event, plan, policy, report, until

pytestmark = pytest.mark.postgres

CHANNELS = ("reports", "plan", "policy", "tokens", "keys", "operators", "lease", "events")


async def following(url: str, heard: list[tuple[str, str]]) -> asyncio.Task[None]:
    async def follow() -> None:
        async for message in notify.listen(url, CHANNELS):
            heard.append(message)  # noqa: PERF401  it is read while it grows

    task = asyncio.create_task(follow())

    async def connected() -> bool:
        return (notify.RECONNECTED, "") in heard

    await until(connected)
    return task


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_each_change_is_heard_on_its_channel(database, postgres_url):
    """Whoever follows learns of reports, plans, policies, tokens, keys, operators' acts, events and a free lease."""
    heard: list[tuple[str, str]] = []
    task = await following(postgres_url, heard)
    term = await lease.acquire(database, "a", 30)
    await reports.put_report(database, "eu-west-1", report(1), b"{}")
    await plans.publish(database, b"{}", plan(7, 0), [event("why")], term)
    await policies.add(database, {}, policy(), "ann", "first")
    await tokens.create(database, "edge", ["read"])
    await keys.ensure(database)
    await operators.put(database, "eu-west-1", "down", who="ann", reason="fire")
    await lease.release(database, "a", term)

    async def all_heard() -> bool:
        return {channel for channel, _ in heard} >= set(CHANNELS)

    await until(all_heard)
    assert {("reports", "eu-west-1"), ("plan", "7"), ("policy", "1"), ("operators", "eu-west-1")} <= set(heard)
    await end(task)


async def test_what_is_rolled_back_is_not_heard(database, postgres_url):
    """A notification belongs to its transaction."""
    heard: list[tuple[str, str]] = []
    task = await following(postgres_url, heard)

    async def fail() -> None:
        async with database.transaction() as connection:
            await notify.notify(connection, "plan", "lost")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    async with database.transaction() as connection:
        await notify.notify(connection, "plan", "kept")

    async def kept_heard() -> bool:
        return ("plan", "kept") in heard

    await until(kept_heard)
    assert ("plan", "lost") not in heard
    await end(task)


async def test_a_quiet_tick_wakes_nobody(database, postgres_url):
    """The heartbeat is a row, not a notification."""
    heard: list[tuple[str, str]] = []
    term = await lease.acquire(database, "a", 30)
    task = await following(postgres_url, heard)
    await plans.publish(database, b"{}", None, [], term)
    await tokens.create(database, "edge", ["read"])

    async def token_heard() -> bool:
        return ("tokens", "") in heard

    await until(token_heard)
    assert heard == [(notify.RECONNECTED, ""), ("tokens", "")]
    await end(task)


async def test_a_listener_and_a_pool_outlive_a_restart_of_postgres(tmp_path):
    """Killed and started again, the server is found again by both without help; meanwhile calls fail in one way."""
    server = EmbeddedPostgres(tmp_path / "data", settings={"fsync": "off"})
    url = server.start()
    database = Database(url)
    heard: list[tuple[str, str]] = []
    task = await following(url, heard)
    try:
        assert await database.now_ms() > 0
        os.kill(server.pid, signal.SIGKILL)

        async def is_away() -> bool:
            try:
                await database.now_ms()
            except DatabaseUnavailable:
                return True
            return False

        await until(is_away)
        heard.clear()
        await asyncio.to_thread(server.start)
        assert await database.now_ms() > 0

        async def back() -> bool:
            return (notify.RECONNECTED, "") in heard

        await until(back)
        async with database.transaction() as connection:
            await notify.notify(connection, "plan", "after")

        async def after_heard() -> bool:
            return ("plan", "after") in heard

        await until(after_heard)
    finally:
        await end(task)
        await database.close()
        server.stop()
