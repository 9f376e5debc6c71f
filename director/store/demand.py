"""Demand: one row a second from each replica. A second of statistics; not waited to disk."""

from __future__ import annotations

import msgspec
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.observations import DemandSample
from director.store.database import Database
from director.store.ordering import in_order, without_waiting_for_disk
from director.store.tables import demand
from director.store.times import ago

BACKLOG_S = 10.0
"""How far back a reader without a cursor begins."""

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
    query = select(demand.c.id, demand.c.content).order_by(demand.c.id)
    query = query.where(demand.c.id > cursor if cursor is not None else demand.c.received_at > ago(BACKLOG_S))
    rows = (await connection.execute(query)).all()
    return tuple(_decoder.decode(content) for _, content in rows), int(rows[-1][0]) if rows else cursor or 0
