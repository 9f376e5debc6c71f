"""What is kept for how long. Deleted in small batches, so that no writer waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Table, delete, func, or_, select

from director.store.database import Database
from director.store.tables import (
    affinity_keys,
    demand,
    events,
    outcome_batches,
    plans,
    probes,
    report_history,
    tokens,
)
from director.store.times import ago

DAY_S = 86_400.0
BATCH_ROWS = 500


class Rule(NamedTuple):
    """Rows of `table` whose `column` is older than `keep_s` go, except what `but` spares."""

    table: Table
    column: str
    keep_s: float
    but: Callable[[], ColumnElement[Any]] | None = None


def _plans_in_use() -> ColumnElement[Any]:
    """The plan in force, and bases that a plan still needs: a base goes when its last change has gone."""
    other = plans.alias()
    needed = select(other.c.base).where(other.c.base.is_not(None))
    return or_(plans.c.epoch == select(func.max(other.c.epoch)).scalar_subquery(), plans.c.epoch.in_(needed))


RULES = (
    Rule(report_history, "received_at", DAY_S),
    Rule(events, "at", 30 * DAY_S),
    Rule(plans, "at", 7 * DAY_S, but=_plans_in_use),
    Rule(demand, "received_at", 600.0),
    Rule(outcome_batches, "received_at", 3_600.0),
    Rule(probes, "at", 600.0),
    Rule(tokens, "revoked_at", 30 * DAY_S),
    Rule(affinity_keys, "retired_at", 0.0),
)


async def prune_all(db: Database) -> dict[str, int]:
    """Delete what is past its time: table → rows. Raises DatabaseUnavailable; what went before stays gone."""
    return {rule.table.name: gone for rule in RULES if (gone := await _prune(db, rule))}


async def _prune(db: Database, rule: Rule) -> int:
    key = next(iter(rule.table.primary_key.columns))
    old = rule.table.c[rule.column] < ago(rule.keep_s)
    batch = select(key).where(old)
    if rule.but is not None:
        batch = batch.where(~rule.but())
    batch = batch.limit(BATCH_ROWS)
    total = 0
    while True:
        async with db.single() as connection:
            gone = (await connection.execute(delete(rule.table).where(key.in_(batch)))).rowcount
        total += gone
        if gone < BATCH_ROWS:
            return total
