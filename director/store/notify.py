"""Notifications: the quick path. A poll is always the safety net, so a lost one costs a second, never correctness.

Payloads are short names, not contents: a follower reads the row.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal

import asyncpg
import sqlalchemy
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from director.store.database import connect, is_unavailable

Channel = Literal["reports", "plan", "policy", "tokens", "keys", "operators", "lease", "events"]

RECONNECTED = "reconnected"
"""Stands in for a channel after each connect, the first included: whatever was sent before it may be lost, so poll."""
PING_EVERY_S = 5.0
"""A host that vanished closes no connection; without a question now and then, silence would look like quiet."""
RETRY_S_MAX = 2.0

log = structlog.get_logger(__name__)


async def notify(connection: AsyncConnection, channel: Channel, payload: str = "") -> None:
    """Tell listeners, when the transaction commits and not before."""
    await connection.execute(sqlalchemy.select(sqlalchemy.func.pg_notify(channel, payload)))


async def listen(url: str, channels: Iterable[Channel]) -> AsyncIterator[tuple[str, str]]:
    """Yield (channel, payload) for ever, connecting again whenever the connection is lost.

    ("reconnected", "") comes after each connect. Never raises because the database is away.
    """
    wanted = tuple(channels)
    retry_s = 0.1
    while True:
        queue: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()
        try:
            connection = await _subscribe(url, wanted, queue)
        except Exception as error:
            if not is_unavailable(error):
                raise
            log.debug("listener_connect_failed", error=str(error), retry_s=retry_s)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, RETRY_S_MAX)
            continue
        retry_s = 0.1
        try:
            yield RECONNECTED, ""
            while (message := await _next(connection, queue)) is not None:
                yield message
        finally:
            connection.terminate()
        log.debug("listener_lost")


async def _subscribe(
    url: str, channels: tuple[Channel, ...], queue: asyncio.Queue[tuple[str, str] | None]
) -> asyncpg.Connection:
    connection = await connect(url, name="director listener")

    def heard(_connection: Any, _pid: int, channel: str, payload: str) -> None:
        queue.put_nowait((channel, payload))

    try:
        for channel in channels:
            await connection.add_listener(channel, heard)
    except BaseException:
        connection.terminate()
        raise
    connection.add_termination_listener(lambda _connection: queue.put_nowait(None))
    return connection


async def _next(connection: asyncpg.Connection, queue: asyncio.Queue[tuple[str, str] | None]) -> tuple[str, str] | None:
    """The next message; None when the connection is lost."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PING_EVERY_S):
                return await queue.get()
        try:
            await connection.execute("SELECT 1")
        except Exception as error:
            if not is_unavailable(error):
                raise
            return None
