"""The one way to the database: a small pool, bounded calls, and one error for "it cannot be reached".

Every repository function takes a `Database`. While Postgres is away, restarting, frozen or full, a call raises
DatabaseUnavailable within its time limit and nothing else; the next call connects anew by itself. Anything else that is
raised is a programmer's error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import sqlalchemy
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from director.store.times import as_ms, database_now

CALL_S_MAX = 2.0
"""A planner's tick is one second and a report's sender waits a few: longer than this is the same as away."""
CONNECT_S_MAX = 2.0
LOCK_MS_MAX = 1_000
IDLE_IN_TRANSACTION_MS_MAX = 5_000
"""A paused process must not keep its locks: the server ends its transaction."""
RECYCLE_S = 1_800
"""Connections are renewed: a server process keeps what it once allocated."""

UNAVAILABLE_CLASSES = ("08", "28", "3D", "53", "57P", "58")
"""SQLSTATE classes: connection, who we are, no such database, resources used up, shutdown and crash, system errors."""
UNDEFINED_TABLE = "42P01"
"""A process that starts before the first migration waits for it, as it would for the server."""
UNAVAILABLE_STATES = ("55P03", "57014", "25P03", "25P04", "25006")
"""Lock timeout, statement timeout, transaction timeouts, and a standby that cannot be written to (a fail-over)."""


class DatabaseUnavailable(Exception):
    """Postgres cannot be reached, or did not answer in time. The caller goes on without it and tries again later."""


class SchemaMissing(DatabaseUnavailable):
    """Postgres answers, and lacks a table that this release needs: `director migrate` brings it."""


class Database:
    """A pool of connections to one PostgreSQL (14 or later) database.

    `url`: `postgresql://` or `postgresql+asyncpg://`, as libpq reads it: a Unix socket is `?host=/folder`. Opening
    connects nowhere; the first call does. Belongs to one event loop.
    """

    def __init__(self, url: str, *, pool_size: int = 4, call_s_max: float = CALL_S_MAX) -> None:
        self.url = plain_url(url)
        self.call_s_max = call_s_max
        self.engine: AsyncEngine = create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self._connect,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=call_s_max,
            pool_pre_ping=True,
            pool_recycle=RECYCLE_S,
        )
        self._single = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    async def close(self) -> None:
        """Close every connection. Never raises because the database is away."""
        try:
            async with asyncio.timeout(self.call_s_max):
                await self.engine.dispose()
        except (TimeoutError, OSError, DBAPIError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await self.engine.dispose(close=False)

    async def now_ms(self) -> int:
        """The database's clock, epoch ms. Raises DatabaseUnavailable."""
        async with self.single() as connection:
            return int((await connection.execute(sqlalchemy.select(as_ms(database_now())))).scalar_one())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """One transaction: all of it or nothing. Raises DatabaseUnavailable."""
        with _one_error():
            async with asyncio.timeout(self.call_s_max), self.engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Several reads of one moment. Raises DatabaseUnavailable."""
        async with self.transaction() as connection:
            await connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    @asynccontextmanager
    async def single(self) -> AsyncIterator[AsyncConnection]:
        """For a single statement, which commits by itself: saves the round trips of BEGIN and COMMIT."""
        with _one_error():
            async with asyncio.timeout(self.call_s_max), self._single.connect() as connection:
                yield connection

    async def _connect(self) -> asyncpg.Connection:
        return await connect(self.url, call_s_max=self.call_s_max)


async def connect(url: str, *, call_s_max: float = CALL_S_MAX, name: str = "director") -> asyncpg.Connection:
    """One plain connection with the same limits as the pool's. Raises what asyncpg raises."""
    return await asyncpg.connect(
        plain_url(url),
        timeout=CONNECT_S_MAX,
        command_timeout=call_s_max,
        server_settings={
            "application_name": name,
            "statement_timeout": str(int(call_s_max * 1000)),
            "lock_timeout": str(LOCK_MS_MAX),
            "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MS_MAX),
            "timezone": "UTC",
        },
    )


def plain_url(url: str) -> str:
    """The URL as libpq and asyncpg read it. Raises ValueError for another database's."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("postgresql", "postgres", "postgresql+asyncpg"):
        raise ValueError(
            "DIRECTOR_DATABASE_URL: expected postgresql://user@host/database or "
            f"postgresql://user@/database?host=/socket/folder, got a URL that begins with {scheme!r}"
        )
    return f"postgresql://{rest}"


def is_unavailable(error: BaseException) -> bool:
    """Whether an error says that the database is away, and not that we asked for nonsense."""
    if isinstance(error, (DatabaseUnavailable, OSError, TimeoutError, PoolTimeout, asyncpg.InternalClientError)):
        return True
    if isinstance(error, InterfaceError | asyncpg.InterfaceError):
        return not isinstance(error, asyncpg.DataError)
    if isinstance(error, DBAPIError):
        cause: Any = error.orig
        return error.connection_invalidated or is_unavailable(cause.__cause__ or cause)
    state = getattr(error, "sqlstate", None)
    if isinstance(error, asyncpg.PostgresError) and isinstance(state, str):
        return state.startswith(UNAVAILABLE_CLASSES) or state in UNAVAILABLE_STATES
    return False


class _one_error:  # noqa: N801  a context manager reads as a verb
    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, DatabaseUnavailable):
            return
        if is_unavailable(error):
            raise DatabaseUnavailable(sentence(error)) from error
        if isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == UNDEFINED_TABLE:
            raise SchemaMissing(f"{sentence(error)}; is the schema of this release? (director migrate)") from error


def sentence(error: BaseException) -> str:
    """One line for a log: the driver's own words, without SQLAlchemy's wrapping."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig.__cause__ or error.orig
    words = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {words[0]}" if words else type(cause).__name__
