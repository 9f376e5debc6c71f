"""Rows that are followed by id must become visible in the order of their ids.

Ids are given at INSERT and rows appear at COMMIT, so without this a reader at id 8 may see 9 before 8, and then never
see 8. Writers of one table take a transaction-level lock first: the next one gets its id after the previous commit.
"""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection

LOCK_SPACE = 0x52_44  # "RD": keeps our advisory locks apart from those of others in a shared database
_KEYS = {"events": 1, "demand": 2, "outcome_batches": 3, "probes": 4, "policies": 5, "affinity_keys": 6}


async def in_order(connection: AsyncConnection, table: Table) -> None:
    """Wait for other writers of `table`; held until the transaction ends."""
    await connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(LOCK_SPACE, _KEYS[table.name])))


async def without_waiting_for_disk(connection: AsyncConnection) -> None:
    """For rows whose loss in a crash costs a second of statistics: commit without the wait for the disk."""
    await connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
