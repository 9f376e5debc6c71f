"""The planner's state and its plans: written by the holder of the lease alone, in one transaction.

The state row is overwritten each tick and is the heartbeat. A plan row is added only when something published changed.
Both check the term, under a lock that a take-over waits for: a leader that was paused cannot publish when it wakes.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct, structs
from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.events import Event
from director.core.plan import Plan
from director.store import plan_rows
from director.store.database import Database
from director.store.events import add_events
from director.store.lease import PLANNER, Fenced, require_term
from director.store.notify import notify
from director.store.tables import planner_state, plans
from director.store.times import as_ms, database_now, from_ms

_bases: WeakKeyDictionary[Database, Plan] = WeakKeyDictionary()
"""The newest base that each database handle has seen: two rows become one for whoever follows."""


class StoredPlan(Struct, frozen=True):
    """A plan as stored. `content_hash` covers what is published, not epoch, term and time; `at_ms`: of its commit."""

    plan: Plan
    content_hash: str
    at_ms: int


class StoredState(Struct, frozen=True):
    """The planner's state as JSON, who wrote it and when, and how far its writer had read."""

    state_json: bytes
    term: int
    at_ms: int
    cursors: dict[str, int]


class Heartbeat(Struct, frozen=True):
    """The planner's last sign of life. `now_ms - at_ms` is its age by one clock. `epoch` 0: no plan yet."""

    term: int
    at_ms: int
    now_ms: int
    epoch: int


def content_hash(plan: Plan) -> str:
    """SHA-256, hex, of what a plan publishes: equal for plans that differ in epoch, term and time only."""
    return sha256(msgspec.json.encode(structs.replace(plan, epoch=0, previous=0, term=0, made_at_ms=0))).hexdigest()


async def publish(
    db: Database,
    state_json: bytes,
    plan: Plan | None,
    events: Sequence[Event],
    term: int,
    cursors: Mapping[str, int] | None = None,
) -> None:
    """One tick of the leader: heartbeat and state, the plan if there is a new one, and its events. All or nothing.

    Raises Fenced when the term's lease has ended or passed to another, or when another plan came since `plan.previous`:
    then the caller is not the leader, or has the wrong memory, and must begin anew from what is stored. Raises
    DatabaseUnavailable; the tick may then have been committed all the same, so the caller reads the newest plan before
    its next.
    """
    async with db.transaction() as connection:
        await require_term(connection, term)
        await _put_state(connection, state_json, term, cursors or {})
        if plan is not None:
            await _put_plan(db, connection, plan, term)
            await notify(connection, "plan", str(plan.epoch))
        await add_events(connection, events)


async def load_state(db: Database) -> StoredState | None:
    """The state row, None before the first tick ever. Raises DatabaseUnavailable."""
    row_ = planner_state.c
    query = select(row_.content_zlib, row_.term, as_ms(row_.at), row_.cursors).where(row_.name == PLANNER)
    async with db.single() as connection:
        row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    content, term, at_ms, cursors = row
    # In a thread: a large fleet's takes 40 ms, and whoever asks may be serving.
    state_json = await asyncio.to_thread(zlib.decompress, content)
    return StoredState(state_json, term, at_ms, msgspec.json.decode(cursors, type=dict[str, int]))


async def heartbeat(db: Database) -> Heartbeat | None:
    """The leader's last sign of life; None before the first tick ever. Raises DatabaseUnavailable."""
    newest = select(func.coalesce(func.max(plans.c.epoch), 0)).scalar_subquery()
    row_ = planner_state.c
    query = select(row_.term, as_ms(row_.at), as_ms(database_now()), newest).where(row_.name == PLANNER)
    async with db.single() as connection:
        row = (await connection.execute(query)).one_or_none()
    return None if row is None else Heartbeat(*row)


async def latest_plan(db: Database) -> StoredPlan | None:
    """The newest plan, None before the first. Raises DatabaseUnavailable."""
    return await _first(db, _rows().order_by(plans.c.epoch.desc()))


async def plan_at(db: Database, at_ms: int) -> StoredPlan | None:
    """The plan that was in force at a past moment; None before the first that is kept. Raises DatabaseUnavailable."""
    return await _first(db, _rows().where(plans.c.at < from_ms(at_ms + 1)).order_by(plans.c.epoch.desc()))


async def plan_of(db: Database, epoch: int) -> StoredPlan | None:
    """The plan of one epoch. Raises DatabaseUnavailable."""
    return await _first(db, _rows().where(plans.c.epoch == epoch))


async def plans_since(db: Database, epoch: int, limit: int = 100) -> list[StoredPlan]:
    """Plans after an epoch, oldest first, at most `limit`. Raises DatabaseUnavailable."""
    return await _read(db, _rows().where(plans.c.epoch > epoch).order_by(plans.c.epoch).limit(limit))


async def _first(db: Database, query: Select[Any]) -> StoredPlan | None:
    found = await _read(db, query.limit(1))
    return found[0] if found else None


def _rows() -> Select[Any]:
    return select(plans.c.content, plans.c.content_hash, as_ms(plans.c.at), plans.c.base)


async def _read(db: Database, query: Select[Any]) -> list[StoredPlan]:
    """Plans with their bases put back. A base outlives its changes, so it is there in a later statement too."""
    async with db.single() as connection:
        rows = (await connection.execute(query)).all()
        found = []
        base: Plan | None = None
        for content, hash_, at_ms, base_epoch in rows:
            if base_epoch is None:
                plan = base = _remember(db, plan_rows.decode_whole(content))
            else:
                if base is None or base.epoch != base_epoch:
                    base = await _base(db, connection, base_epoch)
                plan = plan_rows.decode_change(content, base)
            found.append(StoredPlan(plan, hash_, at_ms))
    return found


async def _base(db: Database, connection: AsyncConnection, epoch: int) -> Plan:
    """A whole plan, from memory as a rule: an epoch is never used twice, so what is remembered stays true."""
    known = _bases.get(db)
    if known is not None and known.epoch == epoch:
        return known
    content = (await connection.execute(select(plans.c.content).where(plans.c.epoch == epoch))).scalar_one()
    return _remember(db, plan_rows.decode_whole(content))


def _remember(db: Database, plan: Plan) -> Plan:
    """Keep the newest base that was seen; readers of the past must not push it out."""
    known = _bases.get(db)
    if known is None or known.epoch <= plan.epoch:
        _bases[db] = plan
    return plan


async def _put_state(connection: AsyncConnection, state_json: bytes, term: int, cursors: Mapping[str, int]) -> None:
    put = insert(planner_state).values(
        name=PLANNER,
        term=term,
        content_zlib=zlib.compress(state_json, 1),
        cursors=msgspec.json.encode(cursors).decode(),
    )
    await connection.execute(
        put.on_conflict_do_update(
            index_elements=["name"],
            set_={
                "term": put.excluded.term,
                "content_zlib": put.excluded.content_zlib,
                "cursors": put.excluded.cursors,
                "at": database_now(),
            },
        )
    )


async def _put_plan(db: Database, connection: AsyncConnection, plan: Plan, term: int) -> None:
    query = select(plans.c.epoch, plans.c.base).order_by(plans.c.epoch.desc()).limit(1)
    newest = (await connection.execute(query)).one_or_none()
    newest_epoch = newest.epoch if newest is not None else 0
    if newest_epoch != plan.previous:
        raise Fenced(f"plan {plan.epoch} follows plan {plan.previous}, and the newest stored is {newest_epoch}")
    base = None if newest is None else await _base(db, connection, newest.base or newest.epoch)
    content, base_epoch = plan_rows.encode(plan, base)
    row = insert(plans).values(
        epoch=plan.epoch,
        previous=plan.previous,
        term=term,
        policy=plan.policy,
        content=content,
        content_hash=content_hash(plan),
        base=base_epoch,
    )
    await connection.execute(row)
