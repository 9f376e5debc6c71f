"""Outcomes that L7s saw, in batches. A batch counts once, however often it is sent within the hour."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.observations import Outcome
from director.store.database import Database
from director.store.ordering import in_order
from director.store.tables import outcome_batches
from director.store.times import ago

BACKLOG_S = 10.0
"""How far back a reader without a cursor begins."""

_decoder = msgspec.json.Decoder(tuple[Outcome, ...])


async def put_batch(db: Database, reporter: str, batch: str, outcomes: Sequence[Outcome]) -> bool:
    """Store a batch. False: this reporter's batch was seen, nothing is counted. Raises DatabaseUnavailable."""
    row = insert(outcome_batches).values(
        reporter=reporter,
        batch=batch,
        content=msgspec.json.encode(tuple(outcomes)).decode(),
    )
    async with db.transaction() as connection:
        await in_order(connection, outcome_batches)
        put = await connection.execute(row.on_conflict_do_nothing().returning(outcome_batches.c.id))
        return put.first() is not None


async def since(db: Database, cursor: int | None) -> tuple[tuple[Outcome, ...], int]:
    """Outcomes after a cursor (None: of the last BACKLOG_S), and the cursor after them. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        return await since_in(connection, cursor)


async def since_in(connection: AsyncConnection, cursor: int | None) -> tuple[tuple[Outcome, ...], int]:
    """The same inside the caller's transaction."""
    column = outcome_batches.c
    query = select(column.id, column.content).order_by(column.id)
    query = query.where(column.id > cursor if cursor is not None else column.received_at > ago(BACKLOG_S))
    rows = (await connection.execute(query)).all()
    found = tuple(outcome for _, content in rows for outcome in _decoder.decode(content))
    return found, int(rows[-1][0]) if rows else cursor or 0
