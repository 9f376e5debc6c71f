"""Rows that are followed by id must become visible in the order of their ids.

Ids are given at INSERT and rows appear at COMMIT, so without this a reader at id 8 may see 9 before 8, and then never
see 8. Writers of one table take a transaction-level lock first: the next one gets its id after the previous commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from director.store.times import ago

BACKLOG_S = 10.0
"""How far back a reader without a cursor begins: longer than it takes to become the leader, too short to mislead."""

LOCK_SPACE = 0x52_44  # "RD": keeps our advisory locks apart from those of others in a shared database
_KEYS = {"events": 1, "demand": 2, "outcome_batches": 3, "probes": 4, "policies": 5, "affinity_keys": 6}


async def in_order(connection: AsyncConnection, table: Table) -> None:
    """Wait for other writers of `table`; held until the transaction ends."""
    await connection.execute(select(func.pg_advisory_xact_lock(LOCK_SPACE, _KEYS[table.name])))


async def rows_since(
    connection: AsyncConnection,
    table: Table,
    columns: Sequence[ColumnElement[Any]],
    moment: ColumnElement[Any],
    cursor: int | None,
) -> tuple[list[Any], int]:
    """The `columns` of rows whose id is beyond `cursor`, in order, and the cursor after them.

    Without a cursor, rows whose `moment` is within the last BACKLOG_S.
    """
    if cursor is None:
        before = select(func.coalesce(func.max(table.c.id), 0)).where(moment <= ago(BACKLOG_S))
        cursor = int((await connection.execute(before)).scalar_one())
    query = select(table.c.id, *columns).where(table.c.id > cursor).order_by(table.c.id)
    rows = (await connection.execute(query)).all()
    return [row[1:] for row in rows], int(rows[-1][0]) if rows else cursor


async def without_waiting_for_disk(connection: AsyncConnection) -> None:
    """For rows whose loss in a crash costs a second of statistics: commit without the wait for the disk."""
    await connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
