"""Events: every change of state, with who, when, why, before and after. Followed by id."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.events import Event
from director.store.database import Database
from director.store.notify import notify
from director.store.ordering import in_order
from director.store.tables import events
from director.store.times import as_ms, from_ms

_FIELDS = ("kind", "region", "model", "version", "before", "after", "why", "who", "request_id")


class StoredEvent(Struct, frozen=True):
    """An event and its id. Ids grow in the order in which events become visible; they are the resume points of SSE."""

    id: int
    event: Event


async def append(db: Database, *new: Event) -> None:
    """Add events, in order. Raises DatabaseUnavailable."""
    async with db.transaction() as connection:
        await add_events(connection, new)


async def add_events(connection: AsyncConnection, new: Sequence[Event]) -> None:
    """Add events inside the caller's transaction: the last thing it does, since it makes other writers wait."""
    if not new:
        return
    await in_order(connection, events)
    # Whatever happens within a request was caused by it, however deep it is written.
    request_id = structlog.contextvars.get_contextvars().get("request_id")
    # One statement: RETURNING is not needed, and VALUES keeps the order.
    rows = [
        {
            "at": from_ms(item.at_ms),
            **{name: getattr(item, name) for name in _FIELDS},
            "request_id": item.request_id or request_id,
        }
        for item in new
    ]
    await connection.execute(insert(events).values(rows))
    await notify(connection, "events")


async def list_events(
    db: Database,
    *,
    since_id: int | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    region: str | None = None,
    kind: str | None = None,
    limit: int = 200,
) -> list[StoredEvent]:
    """Events, oldest first. With `since_id` the first `limit` after it; without, the newest `limit` that fit.

    Times are epoch ms, `until_ms` inclusive. Raises DatabaseUnavailable.
    """
    column = events.c
    query = select(column.id, as_ms(column.at), *(column[name] for name in _FIELDS))
    if since_id is not None:
        query = query.where(column.id > since_id)
    if since_ms is not None:
        query = query.where(column.at >= from_ms(since_ms))
    if until_ms is not None:
        query = query.where(column.at < from_ms(until_ms + 1))
    if region is not None:
        query = query.where(column.region == region)
    if kind is not None:
        query = query.where(column.kind == kind)
    query = query.order_by(column.id if since_id is not None else column.id.desc()).limit(limit)
    async with db.single() as connection:
        rows = (await connection.execute(query)).all()
    found = [StoredEvent(row[0], Event(at_ms=row[1], **dict(zip(_FIELDS, row[2:], strict=True)))) for row in rows]
    return found if since_id is not None else found[::-1]


async def newest_event_id(db: Database) -> int:
    """Where a follower that wants only what is to come starts; 0 without events. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        newest = (await connection.execute(select(events.c.id).order_by(events.c.id.desc()).limit(1))).scalar()
    return int(newest or 0)
