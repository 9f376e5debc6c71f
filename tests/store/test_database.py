"""One error for a database that is away, whatever kept it away, within the time limit."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, ProgrammingError

from director.store import lease, plans, reports, tokens
from director.store.database import Database, DatabaseUnavailable, plain_url
from director.store.embedded import EmbeddedPostgres
from tests.store.builders import plan, report, until

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
async def test_each_spelling_of_the_url_is_accepted(postgres_url, scheme):
    """As libpq, SQLAlchemy and people write it."""
    database = Database(postgres_url.replace("postgresql", scheme, 1))
    assert await database.now_ms() > 0
    await database.close()


@pytest.mark.parametrize("url", ["sqlite:///x", "mysql://h/d", "host=/tmp", ""])
def test_another_databases_url_is_refused_in_words(url):
    """The message names the setting and what is expected."""
    with pytest.raises(ValueError, match=r"DIRECTOR_DATABASE_URL: expected postgresql://"):
        plain_url(url)


async def test_nothing_listening_is_unavailable(tmp_path):
    """Each kind of call raises the one error, and closing raises none."""
    database = Database(f"postgresql://director@/none?host={tmp_path}")
    for call in (
        database.now_ms(),
        reports.latest_reports(database),
        reports.put_report(database, "r", report(1), b"{}"),
        lease.acquire(database, "a", 3),
        plans.publish(database, b"{}", plan(1, 0), [], 1),
        tokens.create(database, "x", ["read"]),
    ):
        with pytest.raises(DatabaseUnavailable):
            await call
    await database.close()


async def test_a_database_that_does_not_exist_is_unavailable(postgres_url):
    """It may be made in a moment; the message is the server's."""
    database = Database(postgres_url.replace("/test_", "/missing_"))
    with pytest.raises(DatabaseUnavailable, match="does not exist"):
        await database.now_ms()
    await database.close()


async def test_a_connection_that_the_server_ended_is_replaced(database):
    """A terminated backend costs nothing: the next call works."""
    async with database.single() as connection:
        pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
    killer = Database(database.url, pool_size=1)
    async with killer.single() as connection:
        await connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    await killer.close()
    assert await database.now_ms() > 0


async def test_a_slow_statement_ends_in_time(postgres_url):
    """The limit holds for the call as a whole, and the pool is usable afterwards."""
    database = Database(postgres_url, pool_size=1, call_s_max=0.3)
    started_s = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        async with database.single() as connection:
            await connection.execute(text("SELECT pg_sleep(30)"))
    assert time.monotonic() - started_s < 3
    assert await database.now_ms() > 0
    await database.close()


async def test_a_full_pool_ends_in_time(postgres_url):
    """Whoever waits for a connection waits no longer than a call may take."""
    database = Database(postgres_url, pool_size=1, call_s_max=0.3)
    async with database.engine.connect():
        started_s = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            await database.now_ms()
        assert time.monotonic() - started_s < 3
    await database.close()


async def test_our_own_mistakes_are_not_called_an_outage(database):
    """A bad statement and a broken constraint stay what they are."""
    with pytest.raises(ProgrammingError):
        async with database.single() as connection:
            await connection.execute(text("SELECT no_such_column FROM plans"))
    with pytest.raises(IntegrityError):
        async with database.transaction() as connection:
            await connection.execute(text("INSERT INTO affinity_keys (id, secret) VALUES ('a', 'short')"))


async def test_a_failed_transaction_leaves_nothing(database):
    """All of it or nothing."""

    async def fail_half_way() -> None:
        async with database.transaction() as connection:
            await connection.execute(text("INSERT INTO regions (region) VALUES ('half')"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail_half_way()
    assert await reports.regions_seen(database) == []


async def test_a_frozen_server_ends_calls_in_time_and_is_used_again(tmp_path):
    """Every process of Postgres stopped by SIGSTOP: calls end within limits; continued, they work."""
    server = EmbeddedPostgres(tmp_path / "data", settings={"fsync": "off"})
    database = Database(server.start(), call_s_max=0.5)
    try:
        assert await database.now_ms() > 0
        frozen = _family(server.pid)
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(3):
                started_s = time.monotonic()
                with pytest.raises(DatabaseUnavailable):
                    await database.now_ms()
                assert time.monotonic() - started_s < 6
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)

        async def answers() -> bool:
            try:
                return await database.now_ms() > 0
            except DatabaseUnavailable:
                return False

        await until(answers)
    finally:
        await database.close()
        await asyncio.to_thread(server.stop)


def _family(pid: int) -> list[int]:
    import psutil

    parent = psutil.Process(pid)
    return [pid, *(child.pid for child in parent.children(recursive=True))]
