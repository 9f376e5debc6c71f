"""Outcomes that L7s saw, in batches. A batch counts once, however often it is sent within the hour."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.observations import Outcome
from director.store.database import Database
from director.store.ordering import in_order, rows_since
from director.store.tables import outcome_batches

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
    columns = outcome_batches.c
    rows, cursor = await rows_since(connection, outcome_batches, [columns.content], columns.received_at, cursor)
    return tuple(outcome for (content,) in rows for outcome in _decoder.decode(content)), cursor
