"""The keys that sign affinity tokens.

A new key verifies at once and signs a little later: by then every replica knows it, so no replica calls another's fresh
token forged. Old keys go on verifying until no token of theirs can be alive.
"""

from __future__ import annotations

import secrets

from sqlalchemy import delete, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.affinity import KeyRing
from director.store.database import Database
from director.store.notify import notify
from director.store.ordering import in_order
from director.store.tables import affinity_keys
from director.store.times import ahead, database_now

SETTLES_S = 10.0
"""Several polls of a replica: how long a new key waits before it signs."""
VERIFIES_S = 86_400.0
"""How long a replaced key goes on verifying; longer than any sensible `affinity.ttl_s`."""


async def ensure(db: Database) -> KeyRing:
    """The key ring; makes the first key where there is none. Raises DatabaseUnavailable."""
    keyring = await load(db)
    if keyring is not None:
        return keyring
    async with db.transaction() as connection:
        await in_order(connection, affinity_keys)
        keyring = await _load(connection)
        if keyring is None:
            await _add(connection, settles_s=0.0)
            keyring = await _load(connection)
    assert keyring is not None
    return keyring


async def load(db: Database) -> KeyRing | None:
    """The key ring as it is at this moment: load it again now and then. None: no key. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        return await _load(connection)


async def rotate(db: Database, *, settles_s: float = SETTLES_S, verifies_s: float = VERIFIES_S) -> KeyRing:
    """Add a key that signs after `settles_s`; the others verify for `verifies_s` more. Raises DatabaseUnavailable."""
    async with db.transaction() as connection:
        await in_order(connection, affinity_keys)
        first = await _load(connection) is None
        ending = update(affinity_keys).where(affinity_keys.c.retired_at.is_(None))
        await connection.execute(ending.values(retired_at=ahead(settles_s + verifies_s)))
        await connection.execute(delete(affinity_keys).where(affinity_keys.c.retired_at <= database_now()))
        await _add(connection, settles_s=0.0 if first else settles_s)
        keyring = await _load(connection)
    assert keyring is not None
    return keyring


async def _add(connection: AsyncConnection, settles_s: float) -> None:
    row = insert(affinity_keys).values(
        id=secrets.token_hex(3), secret=secrets.token_bytes(32), signs_from=ahead(settles_s)
    )
    await connection.execute(row)
    await notify(connection, "keys")


async def _load(connection: AsyncConnection) -> KeyRing | None:
    column = affinity_keys.c
    query = select(column.id, column.secret, column.signs_from <= database_now())
    alive = or_(column.retired_at.is_(None), column.retired_at > database_now())
    rows = (await connection.execute(query.where(alive).order_by(column.created_at, column.id))).all()
    if not rows:
        return None
    signing = [id_ for id_, _, signs in rows if signs]
    return KeyRing(current=signing[-1] if signing else rows[0][0], keys={id_: bytes(key) for id_, key, _ in rows})
