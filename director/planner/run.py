"""The planner process: the loop, and the upkeep of old rows."""

from __future__ import annotations

import gc

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from director.planner.loop import PlannerLoop
from director.store import retention
from director.store.database import Database, DatabaseUnavailable

RETENTION_EVERY_S = 60

GC_ALLOCATIONS = 100_000
"""A tick makes some ten structs a deployment and drops as many: looking for cycles among them every 700 allocations
cost a third of a step over 10,000 deployments, and found none."""

log = structlog.get_logger()


async def run_planner(database: Database, holder: str) -> None:
    """Plan, and prune old rows, until cancelled. Every planner prunes, leader or not: it is harmless twice."""
    gc.set_threshold(GC_ALLOCATIONS, 10, 10)
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.add_job(
        _prune,
        "interval",
        seconds=RETENTION_EVERY_S,
        args=[database],
        coalesce=True,
        max_instances=1,
        misfire_grace_time=30,
    )
    scheduler.start()
    try:
        await PlannerLoop(database, holder).run()
    finally:
        scheduler.shutdown(wait=False)


async def _prune(database: Database) -> None:
    try:
        removed = await retention.prune_all(database)
    except DatabaseUnavailable:
        return
    except Exception:
        log.exception("prune_failed")
        return
    if removed:
        log.info("pruned", rows=removed)
