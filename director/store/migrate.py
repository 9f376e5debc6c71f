"""Migrations from Python: one at a time, bounded in time, all of them or none.

Everything runs in one transaction that first takes an advisory lock *of the transaction*: two directors that start at
once migrate one after the other, and the second finds nothing to do. A lock or a statement that takes too long ends the
attempt, so that a migration never stands in front of the reports; it is tried again for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import sqlalchemy
import structlog
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from director.resources import migrations_dir
from director.store.database import DatabaseUnavailable, connect, is_unavailable, sentence
from director.store.ordering import LOCK_SPACE

MIGRATION_LOCK = 100
LOCK_MS_MAX = 2_000
"""A table lock that is waited for stops everybody who comes after: give up, let them pass, try again."""
STATEMENT_S_MAX = 60.0
TRY_S_MAX = 60.0

T = TypeVar("T")

log = structlog.get_logger(__name__)


class MigrationFailed(Exception):
    """A migration cannot be made as asked; nothing was changed. The message says why."""


def upgrade(url: str, revision: str = "head", *, try_s_max: float = TRY_S_MAX) -> str:
    """Bring the database up to `revision`; what it is at afterwards. Waits while another migrates.

    A database that a later release migrated is left as it is: each migration lets the release before it run, so that
    releases can be rolled out, and back, one process at a time. Raises DatabaseUnavailable when there is no database
    within `try_s_max`, MigrationFailed otherwise.
    """

    def up(config: Config, connection: Connection) -> None:
        at = MigrationContext.configure(connection).get_current_revision()
        if at is not None and at not in revisions():
            log.warning("database_is_of_a_later_release", revision=at, ours=head())
            return
        command.upgrade(config, revision)

    _run_patiently(url, up, try_s_max)
    return current(url) or ""


def downgrade(url: str, revision: str, *, try_s_max: float = TRY_S_MAX) -> str | None:
    """Take the database back to `revision` (`base`: empty). As `upgrade`."""
    _run_patiently(url, lambda config, _: command.downgrade(config, revision), try_s_max)
    return current(url)


def current(url: str) -> str | None:
    """The revision the database is at; None where nothing was migrated. Raises DatabaseUnavailable."""
    return _run(_with_connection(url, lambda connection: MigrationContext.configure(connection).get_current_revision()))


def head() -> str:
    """The revision that this release needs."""
    return revisions()[-1]


def revisions() -> list[str]:
    """Every revision that this release knows, oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]


def _config() -> Config:
    config = Config()
    # ConfigParser reads % as the start of a reference.
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    return config


def _run_patiently(url: str, action: Callable[[Config, Connection], None], try_s_max: float) -> None:
    def migrate(connection: Connection) -> None:
        connection.execute(sqlalchemy.text(f"SET LOCAL lock_timeout = '{LOCK_MS_MAX}ms'"))
        connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(LOCK_SPACE, MIGRATION_LOCK)))
        config = _config()
        config.attributes["connection"] = connection
        action(config, connection)

    deadline_s = time.monotonic() + try_s_max
    while True:
        try:
            return _run(_with_connection(url, migrate))
        except DatabaseUnavailable as error:
            if time.monotonic() > deadline_s:
                raise
            log.info("migration_waits", why=str(error))
            time.sleep(0.5)


async def _with_connection(url: str, action: Callable[[Connection], T]) -> T:
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect(url, call_s_max=STATEMENT_S_MAX, name="director migrate"),
        poolclass=sqlalchemy.NullPool,
    )
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(action)
    except Exception as error:
        if is_unavailable(error):
            raise DatabaseUnavailable(sentence(error)) from error
        if isinstance(error, sqlalchemy.exc.SQLAlchemyError | CommandError):
            raise MigrationFailed(sentence(error)) from error
        raise
    finally:
        await engine.dispose()


def _run(work: Coroutine[None, None, T]) -> T:
    """Run to the end, in a thread of its own where this one already has a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
