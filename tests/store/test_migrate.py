"""Migrations: up, down, up again, equal to the tables, one at a time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect

from director.store import migrate
from director.store.database import Database, DatabaseUnavailable, connect
from director.store.ordering import LOCK_SPACE
from director.store.tables import metadata

pytestmark = pytest.mark.postgres


async def _inspect(url: str, look):
    db = Database(url)
    try:
        async with db.transaction() as connection:
            return await connection.run_sync(look)
    finally:
        await db.close()


def _table_names(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names()) - {"alembic_version"}


def test_each_migration_goes_up_and_down_and_up_again(empty_postgres_url):
    """After each step down the tables are those of the step before, and the way up still works."""
    tables_at: dict[str, set[str]] = {"base": set()}
    before = "base"
    for revision in migrate.revisions():
        assert migrate.upgrade(empty_postgres_url, revision) == revision
        tables_at[revision] = asyncio.run(_inspect(empty_postgres_url, _table_names))
        assert migrate.downgrade(empty_postgres_url, before) == (None if before == "base" else before)
        assert asyncio.run(_inspect(empty_postgres_url, _table_names)) == tables_at[before]
        assert migrate.upgrade(empty_postgres_url, revision) == revision
        assert asyncio.run(_inspect(empty_postgres_url, _table_names)) == tables_at[revision]
        before = revision
    assert before == migrate.head()
    assert tables_at[before] == set(metadata.tables)


def test_the_tables_in_code_are_those_that_migrations_make(postgres_url):
    """Alembic finds nothing to change between the two: columns, types, defaults, keys, indexes."""

    def compare(connection: Connection) -> list[object]:
        options = {"compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    assert asyncio.run(_inspect(postgres_url, compare)) == []


def test_constraints_are_those_that_migrations_make(postgres_url, empty_postgres_url):
    """Check constraints, which Alembic does not compare, are the same whichever way the tables are made."""

    def checks(connection: Connection) -> dict[str, list[tuple[str | None, str]]]:
        inspector = inspect(connection)
        return {
            table: sorted((check["name"], check["sqltext"]) for check in inspector.get_check_constraints(table))
            for table in metadata.tables
        }

    def from_code(connection: Connection) -> dict[str, list[tuple[str | None, str]]]:
        metadata.create_all(connection)
        return checks(connection)

    made = asyncio.run(_inspect(empty_postgres_url, from_code))
    assert made == asyncio.run(_inspect(postgres_url, checks))
    assert any(made.values())


def test_simultaneous_starts_migrate_once(empty_postgres_url):
    """Four directors that start at once all find the newest revision, and none fails."""
    with ThreadPoolExecutor(4) as pool:
        reached = list(pool.map(lambda _: migrate.upgrade(empty_postgres_url), range(4)))
    assert reached == [migrate.head()] * 4


async def test_upgrade_works_inside_a_running_loop(empty_postgres_url):
    """A caller with an event loop of its own may migrate."""
    assert migrate.upgrade(empty_postgres_url) == migrate.head()


def test_a_database_at_head_is_left_alone(postgres_url):
    """Migrating twice changes nothing and says where it is."""
    assert migrate.current(postgres_url) == migrate.head()
    assert migrate.upgrade(postgres_url) == migrate.head()


def test_a_migration_waits_for_another_no_longer_than_told(empty_postgres_url):
    """While somebody else holds the lock of migrations the call ends in DatabaseUnavailable; nothing was changed."""

    async def while_locked() -> None:
        connection = await connect(empty_postgres_url)
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1, $2)", LOCK_SPACE, migrate.MIGRATION_LOCK)
            with pytest.raises(DatabaseUnavailable):
                await asyncio.to_thread(migrate.upgrade, empty_postgres_url, try_s_max=0.0)
        await connection.close()

    original, migrate.LOCK_MS_MAX = migrate.LOCK_MS_MAX, 100
    try:
        asyncio.run(while_locked())
    finally:
        migrate.LOCK_MS_MAX = original
    assert migrate.current(empty_postgres_url) is None


def test_no_database_is_said_in_one_line(tmp_path):
    """Where nothing listens the error names the cause."""
    with pytest.raises(DatabaseUnavailable, match=r"FileNotFoundError|ConnectionRefused"):
        migrate.upgrade(f"postgresql://director@/none?host={tmp_path}", try_s_max=0.0)


def test_a_database_of_a_later_release_is_left_alone(postgres_url):
    """After a roll-back of the director its database is newer than it knows: it runs on it, and changes nothing."""

    async def stamp(revision: str) -> None:
        connection = await connect(postgres_url)
        await connection.execute("UPDATE alembic_version SET version_num = $1", revision)
        await connection.close()

    asyncio.run(stamp("9999"))
    try:
        assert migrate.upgrade(postgres_url) == "9999"
        assert asyncio.run(_inspect(postgres_url, _table_names)) == set(metadata.tables)
        with pytest.raises(migrate.MigrationFailed, match="9999"):
            migrate.downgrade(postgres_url, "base")
    finally:
        asyncio.run(stamp(migrate.head()))


def test_an_unknown_revision_is_refused_in_words(empty_postgres_url):
    """A mistyped revision is named, and nothing was changed."""
    with pytest.raises(migrate.MigrationFailed, match="no-such"):
        migrate.upgrade(empty_postgres_url, "no-such")
    assert migrate.current(empty_postgres_url) is None
