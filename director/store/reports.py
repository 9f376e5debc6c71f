"""Reports: the newest of each region, what it serves, and what came in during the last day.

A region's report is taken or left as a whole, in one transaction, in the order of its boot id and sequence.
"""

from __future__ import annotations

import zlib
from typing import Literal

import msgspec
import sqlalchemy
from msgspec import Struct
from sqlalchemy import and_, delete, or_, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.observations import ReceivedReport
from director.core.report import Report
from director.store import tables
from director.store.database import Database
from director.store.notify import notify
from director.store.tables import deployments, regions, report_history
from director.store.times import as_ms, database_now, from_ms

Receipt = Literal["accepted", "duplicate", "older"]

newest_ = tables.latest_reports
_decoder = msgspec.json.Decoder(Report)


class RegionSeen(Struct, frozen=True):
    """When a region was first and last heard of; epoch ms."""

    region: str
    first_seen_at_ms: int
    last_seen_at_ms: int


async def put_report(db: Database, region: str, report: Report, raw: bytes) -> Receipt:
    """Take a region's report: `report` as validated, `raw` as it came, for the history.

    "duplicate": this (boot id, sequence) was taken before. "older": the same boot already said something newer. Another
    boot id always wins. Neither of the two changes anything. Raises DatabaseUnavailable.
    """
    body = zlib.compress(raw, 1)
    async with db.transaction() as connection:
        if not await _take_latest(connection, region, report):
            return await _why_not(connection, region, report)
        kept = (
            insert(report_history)
            .values(region=region, boot_id=report.boot_id, sequence=report.sequence, body_zlib=body)
            .on_conflict_do_nothing()
        )
        await connection.execute(kept)
        seen = insert(regions).values(region=region)
        await connection.execute(
            seen.on_conflict_do_update(index_elements=["region"], set_={"last_seen_at": database_now()})
        )
        await _replace_deployments(connection, region, report)
        await notify(connection, "reports", region)
    return "accepted"


async def latest_reports_of(connection: AsyncConnection, names: set[str] | None = None) -> list[ReceivedReport]:
    """The newest report of each region, or of those named, inside the caller's transaction."""
    query = select(newest_.c.region, as_ms(newest_.c.received_at), newest_.c.content)
    if names is not None:
        query = query.where(newest_.c.region.in_(sorted(names)))
    rows = (await connection.execute(query.order_by(newest_.c.region))).all()
    return [
        ReceivedReport(region, received_at_ms, _decoder.decode(content)) for region, received_at_ms, content in rows
    ]


async def latest_reports(db: Database) -> list[ReceivedReport]:
    """The newest report of every region ever heard of, by name. Raises DatabaseUnavailable."""
    async with db.single() as connection:
        return await latest_reports_of(connection)


async def report_at(db: Database, region: str, at_ms: int) -> tuple[int, bytes] | None:
    """What a region last said at a past moment: (received_at_ms, body as it came). Raises DatabaseUnavailable."""
    history = report_history.c
    query = (
        select(as_ms(history.received_at), history.body_zlib)
        .where(history.region == region, history.received_at < from_ms(at_ms + 1))
        .order_by(history.received_at.desc())
        .limit(1)
    )
    async with db.single() as connection:
        row = (await connection.execute(query)).one_or_none()
    return None if row is None else (int(row[0]), zlib.decompress(row[1]))


async def regions_seen(db: Database) -> list[RegionSeen]:
    """Every region that ever reported, by name. Raises DatabaseUnavailable."""
    query = select(regions.c.region, as_ms(regions.c.first_seen_at), as_ms(regions.c.last_seen_at))
    async with db.single() as connection:
        rows = (await connection.execute(query.order_by(regions.c.region))).all()
    return [RegionSeen(*row) for row in rows]


async def forget_region(db: Database, region: str) -> bool:
    """Drop everything a region said, for one that is gone for good. False where nothing was known of it."""
    async with db.transaction() as connection:
        for table in (deployments, newest_, report_history):
            await connection.execute(delete(table).where(table.c.region == region))
        gone = await connection.execute(delete(regions).where(regions.c.region == region))
        await notify(connection, "reports", region)
    return bool(gone.rowcount)


async def _take_latest(connection: AsyncConnection, region: str, report: Report) -> bool:
    """Replace the newest report if this one is newer. The row lock puts simultaneous reports in a line."""
    seen = select(sqlalchemy.literal(1)).where(
        report_history.c.region == region,
        report_history.c.boot_id == report.boot_id,
        report_history.c.sequence == report.sequence,
    )
    put = insert(newest_).values(
        region=region,
        boot_id=report.boot_id,
        sequence=report.sequence,
        content=msgspec.json.encode(report).decode(),
    )
    newer = or_(
        and_(newest_.c.boot_id == put.excluded.boot_id, newest_.c.sequence < put.excluded.sequence),
        and_(newest_.c.boot_id != put.excluded.boot_id, ~seen.exists()),
    )
    taken = put.on_conflict_do_update(
        index_elements=["region"],
        set_={
            "boot_id": put.excluded.boot_id,
            "sequence": put.excluded.sequence,
            "content": put.excluded.content,
            "received_at": database_now(),
        },
        where=newer,
    ).returning(newest_.c.region)
    return (await connection.execute(taken)).first() is not None


async def _why_not(connection: AsyncConnection, region: str, report: Report) -> Receipt:
    query = select(newest_.c.boot_id, newest_.c.sequence).where(newest_.c.region == region)
    boot_id, sequence = (await connection.execute(query)).one()
    older = boot_id == report.boot_id and report.sequence < sequence
    if not older:
        return "duplicate"
    # A retry of a report that was taken before newer ones is harmless and is told so, as long as history reaches back.
    known = select(report_history.c.id).where(
        report_history.c.region == region,
        report_history.c.boot_id == report.boot_id,
        report_history.c.sequence == report.sequence,
    )
    return "duplicate" if (await connection.execute(known)).first() is not None else "older"


async def _replace_deployments(connection: AsyncConnection, region: str, report: Report) -> None:
    """The region's deployments become exactly those of the report; rows that did not change are not written."""
    rows = {
        (item.model, item.version): {
            "region": region,
            "model": item.model,
            "version": item.version,
            "engine": item.engine,
            "state": item.state,
            "ready_replicas": item.replicas.ready,
            "total_replicas": item.replicas.total,
        }
        for item in report.deployments
    }
    columns = deployments.c
    gone = delete(deployments).where(columns.region == region)
    if not rows:
        await connection.execute(gone)
        return
    await connection.execute(gone.where(tuple_(columns.model, columns.version).not_in(list(rows))))
    put = insert(deployments).values(list(rows.values()))
    shown = ("engine", "state", "ready_replicas", "total_replicas")
    changed = or_(*(columns[name].is_distinct_from(put.excluded[name]) for name in shown))
    await connection.execute(
        put.on_conflict_do_update(
            index_elements=["region", "model", "version"],
            set_={**{name: put.excluded[name] for name in shown}, "changed_at": database_now()},
            where=changed,
        )
    )
