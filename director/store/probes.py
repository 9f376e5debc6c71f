"""Results of our own probes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.observations import ProbeResult
from director.store.database import Database
from director.store.ordering import in_order, rows_since, without_waiting_for_disk
from director.store.tables import probes
from director.store.times import as_ms, from_ms


async def put(db: Database, results: Sequence[ProbeResult]) -> None:
    """Store what one replica's probes found. Raises DatabaseUnavailable."""
    if not results:
        return
    async with db.transaction() as connection:
        await without_waiting_for_disk(connection)
        await in_order(connection, probes)
        rows = [
            {"replica": item.replica, "region": item.region, "ok": item.ok, "at": from_ms(item.at_ms)}
            for item in results
        ]
        await connection.execute(insert(probes).values(rows))


async def since(db: Database, cursor: int | None) -> tuple[tuple[ProbeResult, ...], int]:
    """Results after a cursor (None: of the last BACKLOG_S), and the cursor after them. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        return await since_in(connection, cursor)


async def since_in(connection: AsyncConnection, cursor: int | None) -> tuple[tuple[ProbeResult, ...], int]:
    """The same inside the caller's transaction."""
    columns = (probes.c.replica, probes.c.region, as_ms(probes.c.at), probes.c.ok)
    rows, cursor = await rows_since(connection, probes, columns, probes.c.at, cursor)
    return tuple(ProbeResult(*row) for row in rows), cursor
