"""One embedded PostgreSQL for a whole run, and a fresh, migrated database for each test that asks for one."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def _server_url() -> Iterator[str]:
    """A server with one migrated database, `template_migrated`, to clone from. It does not wait for the disk."""
    from director.store import migrate
    from director.store.embedded import EmbeddedPostgres

    folder = Path(tempfile.mkdtemp(prefix="director-tests-"))
    server = EmbeddedPostgres(folder, settings={"fsync": "off", "max_connections": "100"})
    try:
        url = server.start()
        asyncio.run(_execute(url, "CREATE DATABASE template_migrated"))
        migrate.upgrade(_named(url, "template_migrated"))
        yield url
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def empty_postgres_url(_server_url: str) -> Iterator[str]:
    """The URL of an empty database, this test's alone."""
    yield from _database(_server_url, "template0")


@pytest.fixture
def postgres_url(_server_url: str) -> Iterator[str]:
    """The URL of a migrated, empty database, this test's alone."""
    yield from _database(_server_url, "template_migrated")


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[object]:
    """A `Database` on a migrated, empty database, this test's alone."""
    from director.store.database import Database

    opened = Database(postgres_url)
    yield opened
    await opened.close()


def _database(server_url: str, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    asyncio.run(_execute(server_url, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"))
    yield _named(server_url, name)
    asyncio.run(_execute(server_url, f"DROP DATABASE {name} WITH (FORCE)"))


def _named(url: str, name: str) -> str:
    return url.replace("/postgres?", f"/{name}?")


async def _execute(url: str, statement: str) -> None:
    from director.store.database import connect

    connection = await connect(url, call_s_max=30)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
