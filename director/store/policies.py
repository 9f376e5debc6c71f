"""Policies in versions: the files as their author wrote them, and what they mean. A version never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import insert

from director.core.events import Event
from director.core.policy import Policy
from director.store.database import Database
from director.store.events import add_events
from director.store.notify import notify
from director.store.ordering import in_order
from director.store.tables import policies
from director.store.times import as_ms

_decoder = msgspec.json.Decoder(Policy)


class PolicyVersion(Struct, frozen=True):
    """Who brought a version, when and why."""

    version: int
    who: str
    why: str
    at_ms: int


class StoredPolicy(Struct, frozen=True):
    """A version with its files (name → text) and the policy they mean."""

    version: int
    files: dict[str, str]
    policy: Policy
    who: str
    why: str
    at_ms: int


async def add(db: Database, files: Mapping[str, str], parsed: Policy, who: str, why: str) -> int:
    """Make `parsed`, read from `files`, the newest version, and say so in an event. Returns the version, from 1.

    The caller has validated it and applied its brake. Raises DatabaseUnavailable.
    """
    async with db.transaction() as connection:
        await in_order(connection, policies)
        newest = (await connection.execute(select(func.coalesce(func.max(policies.c.version), 0)))).scalar_one()
        version = int(newest) + 1
        row = insert(policies).values(
            version=version,
            files=dict(files),
            content=msgspec.json.encode(parsed).decode(),
            who=who,
            why=why,
        )
        at_ms = (await connection.execute(row.returning(as_ms(policies.c.at)))).scalar_one()
        await notify(connection, "policy", str(version))
        before = str(newest) if newest else None
        await add_events(connection, [Event("policy", at_ms, why, before=before, after=str(version), who=who)])
    return version


async def current(db: Database) -> StoredPolicy | None:
    """The newest version; None before the first. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        query = _stored_columns().order_by(policies.c.version.desc()).limit(1)
        return _stored((await connection.execute(query)).one_or_none())


async def get(db: Database, version: int) -> StoredPolicy | None:
    """One version; None where there is no such. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        return _stored((await connection.execute(_stored_columns().where(policies.c.version == version))).one_or_none())


async def current_version(db: Database) -> int | None:
    """The newest version's number, None before the first. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        newest: int | None = (await connection.execute(select(func.max(policies.c.version)))).scalar_one()
    return newest


async def history(db: Database, limit: int = 100) -> list[PolicyVersion]:
    """Versions, newest first. Raises DatabaseUnavailable."""
    column = policies.c
    query = select(column.version, column.who, column.why, as_ms(column.at)).order_by(column.version.desc())
    async with db.single() as connection:
        rows = (await connection.execute(query.limit(limit))).all()
    return [PolicyVersion(*row) for row in rows]


def _stored_columns() -> Select[Any]:
    column = policies.c
    return select(column.version, column.files, column.content, column.who, column.why, as_ms(column.at))


def _stored(row: Any) -> StoredPolicy | None:
    if row is None:
        return None
    version, files, content, who, why, at_ms = row
    return StoredPolicy(version, files, _decoder.decode(content), who, why, at_ms)
