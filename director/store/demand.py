"""Demand: one row a second from each replica. A second of statistics; not waited to disk."""

from __future__ import annotations

import msgspec
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.observations import DemandSample
from director.store.database import Database
from director.store.ordering import in_order, rows_since, without_waiting_for_disk
from director.store.tables import demand

_decoder = msgspec.json.Decoder(DemandSample)


async def put(db: Database, sample: DemandSample) -> None:
    """Store one replica's second. Raises DatabaseUnavailable."""
    async with db.transaction() as connection:
        await without_waiting_for_disk(connection)
        await in_order(connection, demand)
        row = insert(demand).values(replica=sample.replica, content=msgspec.json.encode(sample).decode())
        await connection.execute(row)


async def since(db: Database, cursor: int | None) -> tuple[tuple[DemandSample, ...], int]:
    """Samples after a cursor (None: of the last BACKLOG_S), and the cursor after them. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        return await since_in(connection, cursor)


async def since_in(connection: AsyncConnection, cursor: int | None) -> tuple[tuple[DemandSample, ...], int]:
    """The same inside the caller's transaction."""
    columns = demand.c
    rows, cursor = await rows_since(connection, demand, [columns.content], columns.received_at, cursor)
    return tuple(_decoder.decode(content) for (content,) in rows), cursor
