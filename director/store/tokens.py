"""Bearer tokens, stored as SHA-256 hashes only: who reads the database cannot ask in anybody's name.

A token is 256 random bits, so a plain hash is enough: there is nothing to guess by dictionary.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct
from sqlalchemy import or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.store.database import Database
from director.store.notify import notify
from director.store.tables import tokens
from director.store.times import as_ms, database_now, from_ms

PREFIX = "rd_"
"""So that secret scanners, and people, recognise one."""


class TokenRecord(Struct, frozen=True):
    """What a replica needs to check a token: SHA-256 as hex, and what it allows. Times are epoch ms."""

    hash: str
    name: str
    scopes: tuple[str, ...]
    trusted_headers: bool = False
    expires_at_ms: int | None = None


class TokenInfo(Struct, frozen=True):
    """What an operator may see of a token: everything but the token."""

    id: int
    name: str
    scopes: tuple[str, ...]
    trusted_headers: bool
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None


class TokenNameTaken(Exception):
    """A live token has this name; revoke it, or ask to replace it."""


async def create(
    db: Database,
    name: str,
    scopes: Sequence[str],
    *,
    trusted_headers: bool = False,
    expires_at_ms: int | None = None,
    replace: bool = False,
) -> str:
    """Make a token and return it: the only time that anyone sees it.

    `replace` revokes the live token of that name in the same transaction. Raises TokenNameTaken, DatabaseUnavailable.
    """
    plaintext = PREFIX + secrets.token_urlsafe(32)
    row = insert(tokens).values(
        hash=sha256(plaintext.encode()).hexdigest(),
        name=name,
        scopes=list(scopes),
        trusted_headers=trusted_headers,
        expires_at=None if expires_at_ms is None else from_ms(expires_at_ms),
    )
    async with db.transaction() as connection:
        if replace:
            await _revoke(connection, name)
        made = await connection.execute(row.on_conflict_do_nothing().returning(tokens.c.id))
        if made.first() is None:
            raise TokenNameTaken(f"a live token is named {name!r}")
        await notify(connection, "tokens")
    return plaintext


async def revoke(db: Database, name: str) -> bool:
    """End the live token of that name. False: there is none. Raises DatabaseUnavailable."""
    async with db.transaction() as connection:
        revoked = await _revoke(connection, name)
        if revoked:
            await notify(connection, "tokens")
    return revoked


async def all_hashes(db: Database) -> tuple[TokenRecord, ...]:
    """Every token that is neither revoked nor expired. Raises DatabaseUnavailable."""
    column = tokens.c
    query = select(column.hash, column.name, column.scopes, column.trusted_headers, as_ms(column.expires_at))
    live = or_(column.expires_at.is_(None), column.expires_at > database_now())
    async with db.single() as connection:
        rows = (await connection.execute(query.where(column.revoked_at.is_(None), live).order_by(column.id))).all()
    return tuple(TokenRecord(hash_, name, tuple(scopes), trusted, ends) for hash_, name, scopes, trusted, ends in rows)


async def list_tokens(db: Database, *, revoked: bool = False) -> list[TokenInfo]:
    """Tokens by age, the revoked ones too if wanted. Raises DatabaseUnavailable."""
    column = tokens.c
    times = (as_ms(column.created_at), as_ms(column.expires_at), as_ms(column.revoked_at))
    query = select(column.id, column.name, column.scopes, column.trusted_headers, *times).order_by(column.id)
    if not revoked:
        query = query.where(column.revoked_at.is_(None))
    async with db.single() as connection:
        rows = (await connection.execute(query)).all()
    return [TokenInfo(id_, name, tuple(scopes), *rest) for id_, name, scopes, *rest in rows]


async def _revoke(connection: AsyncConnection, name: str) -> bool:
    query = update(tokens).where(tokens.c.name == name, tokens.c.revoked_at.is_(None))
    return bool((await connection.execute(query.values(revoked_at=database_now()))).rowcount)
