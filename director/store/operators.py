"""What operators set on regions: drain, down, cap. Each change writes its own event in the same transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import Select, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.events import Event
from director.core.observations import OperatorSetting
from director.store.database import Database
from director.store.events import add_events
from director.store.notify import notify
from director.store.tables import operator_settings
from director.store.times import ahead, as_ms, database_now

Kind = Literal["drain", "down", "cap"]

ENDED_KIND = {"drain": "undrain", "down": "up", "cap": "uncap"}
"""The kind of the event when a setting ends."""


async def put(
    db: Database,
    region: str,
    kind: Kind,
    *,
    who: str,
    reason: str,
    deadline_s: float | None = None,
    share: float | None = None,
) -> OperatorSetting:
    """Set, or set anew. `deadline_s` counts from now, by the database's clock; `share` is for a cap, within 0..1.

    Writes the event (`drain`, `down`, `cap`) itself. Raises DatabaseUnavailable.
    """
    async with db.transaction() as connection:
        before = await _one(connection, region, kind)
        row = insert(operator_settings).values(
            region=region,
            kind=kind,
            who=who,
            reason=reason,
            share=share,
            deadline_at=None if deadline_s is None else ahead(deadline_s),
        )
        names = ("who", "reason", "share", "deadline_at")
        changed = {**{name: row.excluded[name] for name in names}, "set_at": database_now()}
        await connection.execute(row.on_conflict_do_update(index_elements=["region", "kind"], set_=changed))
        setting = await _one(connection, region, kind)
        assert setting is not None
        await notify(connection, "operators", region)
        event = Event(kind, setting.set_at_ms, reason, region=region, who=who)
        await add_events(connection, [_with_values(event, before, setting)])
    return setting


async def clear(db: Database, region: str, kind: Kind, *, who: str, reason: str) -> OperatorSetting | None:
    """End a setting, and write the event (`undrain`, `up`, `uncap`). What it was; None: it was not set, no event.

    Raises DatabaseUnavailable.
    """
    column = operator_settings.c
    async with db.transaction() as connection:
        before = await _one(connection, region, kind)
        if before is None:
            return None
        await connection.execute(delete(operator_settings).where(column.region == region, column.kind == kind))
        at_ms = (await connection.execute(select(as_ms(database_now())))).scalar_one()
        await notify(connection, "operators", region)
        event = Event(ENDED_KIND[kind], at_ms, reason, region=region, who=who)
        await add_events(connection, [_with_values(event, before, None)])
    return before


async def list_settings(db: Database) -> tuple[OperatorSetting, ...]:
    """Every setting, by region and kind. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        return await settings_of(connection)


async def settings_of(connection: AsyncConnection) -> tuple[OperatorSetting, ...]:
    """The same inside the caller's transaction."""
    query = _columns().order_by(operator_settings.c.region, operator_settings.c.kind)
    return tuple(OperatorSetting(*row) for row in (await connection.execute(query)).all())


async def _one(connection: AsyncConnection, region: str, kind: Kind) -> OperatorSetting | None:
    query = _columns().where(operator_settings.c.region == region, operator_settings.c.kind == kind)
    row = (await connection.execute(query.with_for_update())).one_or_none()
    return None if row is None else OperatorSetting(*row)


def _columns() -> Select[Any]:
    column = operator_settings.c
    times = (as_ms(column.set_at), as_ms(column.deadline_at))
    return select(column.region, column.kind, column.who, column.reason, *times, column.share)


def _with_values(event: Event, before: OperatorSetting | None, after: OperatorSetting | None) -> Event:
    return Event(
        kind=event.kind,
        at_ms=event.at_ms,
        why=event.why,
        region=event.region,
        who=event.who,
        before=_shown(before),
        after=_shown(after),
    )


def _shown(setting: OperatorSetting | None) -> str | None:
    """A setting in an event's words."""
    if setting is None:
        return None
    if setting.kind == "cap":
        return f"cap {setting.share:g}" if setting.share is not None else "cap"
    if setting.deadline_ms is None:
        return setting.kind
    until = datetime.fromtimestamp(setting.deadline_ms / 1000, UTC)
    return f"{setting.kind} until {until:%Y-%m-%dT%H:%M:%SZ}"
