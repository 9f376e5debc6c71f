"""A replica that follows, for as long as its transport runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from director.replica.follow import Follower
from director.replica.probe import Prober
from director.replica.replica import Replica, new_name
from director.store.database import Database, DatabaseUnavailable

FIRST_LOOK_S = 2.0
"""How long to wait for the database before serving from the snapshot, or saying "not ready"."""

log = structlog.get_logger()


@contextlib.asynccontextmanager
async def running_replica(
    role: str, database_url: str, data: Path, *, pool_size: int = 4, probes: bool = False
) -> AsyncIterator[Replica]:
    """Restore, look once, then follow in the background, and probe gateways if asked to.

    Entering never fails because the database is away.
    """
    database = Database(database_url, pool_size=pool_size)
    replica = Replica(new_name(role), database)
    follower = Follower(replica, database, snapshot_path=data / f"snapshot-{role}.json")
    follower.restore()
    try:
        async with asyncio.timeout(FIRST_LOOK_S):
            await follower.poll()
    except (DatabaseUnavailable, TimeoutError) as error:
        log.warning("database_unavailable", why=str(error), serving="snapshot" if replica.table else "nothing")
    background = [asyncio.create_task(follower.run(), name="follow")]
    if probes:
        background.append(asyncio.create_task(Prober(replica, database).run(), name="probe"))
    try:
        yield replica
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await follower.save()
        await database.close()
