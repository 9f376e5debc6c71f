"""Results of our own probes."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.observations import ProbeResult
from director.store.database import Database
from director.store.ordering import in_order, without_waiting_for_disk
from director.store.tables import probes
from director.store.times import ago, as_ms, from_ms

BACKLOG_S = 10.0
"""How far back a reader without a cursor begins."""


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
    column = probes.c
    query = select(column.id, column.replica, column.region, as_ms(column.at), column.ok).order_by(column.id)
    query = query.where(column.id > cursor if cursor is not None else column.at > ago(BACKLOG_S))
    rows = (await connection.execute(query)).all()
    return tuple(ProbeResult(*row[1:]) for row in rows), int(rows[-1][0]) if rows else cursor or 0
