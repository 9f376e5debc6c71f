"""One embedded PostgreSQL for a whole run, and a fresh, migrated database for each test that asks for one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

_numbers = itertools.count(1)
_free: list[str] = []
"""Databases that are as good as new. Emptying one takes 6 ms, making one 200."""

_RESET = """
DO $$
DECLARE name text;
BEGIN
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
    -- TRUNCATE makes and removes some sixty files; a few rows go faster one by one.
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version' LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
END $$
"""


@pytest.fixture(scope="session")
def _server_url() -> Iterator[str]:
    """A server with one migrated database, `template_migrated`, to clone from. It does not wait for the disk.

    The embedded one, unless DIRECTOR_TEST_SERVER_URL names the database `postgres` of another, of any version from 14.
    """
    from director.store import migrate

    with contextlib.ExitStack() as stack:
        url = os.environ.get("DIRECTOR_TEST_SERVER_URL") or stack.enter_context(_embedded())
        asyncio.run(_execute(url, "DROP DATABASE IF EXISTS template_migrated"))
        asyncio.run(_execute(url, "CREATE DATABASE template_migrated"))
        migrate.upgrade(_named(url, "template_migrated"))
        yield url
        for name in ("template_migrated", *_free):
            asyncio.run(_execute(url, f"DROP DATABASE {name} WITH (FORCE)"))


@contextlib.contextmanager
def _embedded() -> Iterator[str]:
    from director.store.embedded import EmbeddedPostgres

    folder = Path(tempfile.mkdtemp(prefix="director-tests-"))
    server = EmbeddedPostgres(folder, settings={"fsync": "off", "max_connections": "100"})
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def empty_postgres_url(_server_url: str) -> Iterator[str]:
    """The URL of an empty database, this test's alone, to migrate."""
    name = f"empty_{next(_numbers)}"
    asyncio.run(_execute(_server_url, f"CREATE DATABASE {name} TEMPLATE template0"))
    yield _named(_server_url, name)
    asyncio.run(_execute(_server_url, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def postgres_url(_server_url: str) -> Iterator[str]:
    """The URL of a migrated database without a row, this test's alone while it runs."""
    if not _free:
        _free.append(name := f"test_{next(_numbers)}")
        asyncio.run(_execute(_server_url, f"CREATE DATABASE {name} TEMPLATE template_migrated"))
    name = _free.pop()
    url = _named(_server_url, name)
    yield url
    asyncio.run(_execute(url, _RESET))
    _free.append(name)


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[object]:
    """A `Database` on a migrated, empty database, this test's alone."""
    from director.store.database import Database

    opened = Database(postgres_url)
    yield opened
    await opened.close()


def _named(url: str, name: str) -> str:
    return url.replace("/postgres?", f"/{name}?")


async def _execute(url: str, statement: str) -> None:
    from director.store.database import connect

    connection = await connect(url, call_s_max=30)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
