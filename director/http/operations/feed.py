"""Following events: one look at the newest id for all who wait, and a read of their own when there is something new.

The look happens only while somebody waits. While the database is away nobody is told anything; each one goes on from
the id that it had, so nothing is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from director.store import events
from director.store.database import Database, DatabaseUnavailable
from director.store.events import StoredEvent

LOOK_S = 0.5
BATCH = 200
QUIET_S_MAX = 15.0
"""Proxies close a stream that says nothing for a minute; half of that twice over."""


class EventFeed:
    """Of one process. `close` ends every stream, so that a server can stop."""

    def __init__(self) -> None:
        self._newest = 0
        self._waiting = 0
        self._changed = asyncio.Condition()
        self._looking: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    def close(self) -> None:
        self._closed.set()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    async def follow(
        self, database: Database, since_id: int | None, *, region: str | None = None, kind: str | None = None
    ) -> AsyncIterator[StoredEvent | None]:
        """Events after `since_id` (None: from now on), for ever. None: nothing happened for a while."""
        cursor = since_id
        self._waiting += 1
        try:
            while not self.closed:
                try:
                    if cursor is None:
                        cursor = await events.newest_event_id(database)
                    # Taken before the read: whatever is newer than that, the next read looks for again.
                    seen = self._newest
                    found = await events.list_events(database, since_id=cursor, region=region, kind=kind, limit=BATCH)
                except DatabaseUnavailable:
                    yield None
                    await self._pause()
                    continue
                for one in found:
                    cursor = one.id
                    yield one
                if len(found) == BATCH:
                    continue
                cursor = max(cursor, seen)
                if not await self._something_after(database, cursor):
                    yield None
        finally:
            self._waiting -= 1

    async def _something_after(self, database: Database, cursor: int) -> bool:
        """Wait for an event after the cursor; False when nothing came for `QUIET_S_MAX`, or at the end."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look(database))
        try:
            async with asyncio.timeout(QUIET_S_MAX), self._changed:
                await self._changed.wait_for(lambda: self._newest > cursor or self.closed)
        except TimeoutError:
            return False
        return not self.closed

    async def _look(self, database: Database) -> None:
        """Look for a newer event while anybody waits."""
        while self._waiting and not self.closed:
            try:
                newest = await events.newest_event_id(database)
            except DatabaseUnavailable:
                newest = self._newest
            if newest != self._newest:
                async with self._changed:
                    self._newest = newest
                    self._changed.notify_all()
            await self._pause()
        async with self._changed:
            self._changed.notify_all()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(LOOK_S):
                await self._closed.wait()
        except TimeoutError:
            return
