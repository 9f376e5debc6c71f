"""The planner process: the loop, and the upkeep of old rows."""

from __future__ import annotations

import contextlib
import gc

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from director.metrics.scrape import serve_metrics
from director.planner.loop import PlannerLoop
from director.planner.metrics import exposition
from director.store import retention
from director.store.database import Database, DatabaseUnavailable

RETENTION_EVERY_S = 60

GC_ALLOCATIONS = 1_000_000
"""A tick makes some ten structs a deployment and drops as many: looking for cycles among them every 700 allocations
cost a third of a step over 10,000 deployments, and found none."""

log = structlog.get_logger()


async def run_planner(database: Database, holder: str, metrics_at: tuple[str, int] | None = None) -> None:
    """Plan, and prune old rows, until cancelled. Every planner prunes, leader or not: it is harmless twice.

    `metrics_at`: host and port for scrapes. Raises OSError where it is taken.
    """
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
    loop = PlannerLoop(database, holder)
    async with contextlib.AsyncExitStack() as stack:
        if metrics_at is not None:
            server = await serve_metrics(lambda: exposition(loop.counters), *metrics_at, threaded=True)
            stack.callback(server.close)
        scheduler.start()
        stack.callback(scheduler.shutdown, wait=False)
        await loop.run()


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
