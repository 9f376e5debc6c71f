"""Reports: the newest of each region, what it serves, and what came in during the last day.

A region's report is taken or left as a whole, in one transaction, in the order of its boot id and sequence.
"""

from __future__ import annotations

import zlib
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Select, and_, delete, or_, select, text
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

newest = tables.latest_reports
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
        received_at = await _take_latest(connection, region, report)
        if received_at is None:
            return await _why_not(connection, region, report)
        kept = (
            insert(report_history)
            .values(
                region=region,
                boot_id=report.boot_id,
                sequence=report.sequence,
                body_zlib=body,
                received_at=received_at,
            )
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
    query = select(newest.c.region, as_ms(newest.c.received_at), newest.c.content)
    if names is not None:
        query = query.where(newest.c.region.in_(sorted(names)))
    rows = (await connection.execute(query.order_by(newest.c.region))).all()
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
        for table in (deployments, newest, report_history):
            await connection.execute(delete(table).where(table.c.region == region))
        gone = await connection.execute(delete(regions).where(regions.c.region == region))
        await notify(connection, "reports", region)
    return bool(gone.rowcount)


async def _take_latest(connection: AsyncConnection, region: str, report: Report) -> datetime | None:
    """Replace the newest report if this one is newer: when. The row lock puts simultaneous reports in a line.

    The history is asked too, because two agents of one region may take turns: each boot goes forward only.
    """
    overtaken = _of_this_boot(region, report).where(report_history.c.sequence >= report.sequence)
    put = insert(newest).values(
        region=region,
        boot_id=report.boot_id,
        sequence=report.sequence,
        content=msgspec.json.encode(report).decode(),
    )
    newer = or_(newest.c.boot_id != put.excluded.boot_id, newest.c.sequence < put.excluded.sequence)
    taken = put.on_conflict_do_update(
        index_elements=["region"],
        set_={
            "boot_id": put.excluded.boot_id,
            "sequence": put.excluded.sequence,
            "content": put.excluded.content,
            "received_at": database_now(),
        },
        where=and_(newer, ~overtaken.exists()),
    ).returning(newest.c.received_at)
    received_at: datetime | None = (await connection.execute(taken)).scalar_one_or_none()
    return received_at


async def _why_not(connection: AsyncConnection, region: str, report: Report) -> Receipt:
    """A retry of what was taken, however long ago, is harmless and is told so, as far as the history reaches back."""
    query = select(newest.c.boot_id, newest.c.sequence).where(newest.c.region == region)
    if (await connection.execute(query)).one_or_none() == (report.boot_id, report.sequence):
        return "duplicate"
    same = _of_this_boot(region, report).where(report_history.c.sequence == report.sequence)
    return "duplicate" if (await connection.execute(same)).first() is not None else "older"


def _of_this_boot(region: str, report: Report) -> Select[Any]:
    """What the history has of the boot that sent this report."""
    history = report_history.c
    return select(history.id).where(history.region == region, history.boot_id == report.boot_id)


_DELETE_UNLISTED = text("""
    DELETE FROM deployments WHERE region = :region
    AND NOT EXISTS (
        SELECT FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS listed (model text, version text)
        WHERE listed.model = deployments.model AND listed.version = deployments.version
    )""")
_PUT_LISTED = text("""
    INSERT INTO deployments AS old (region, model, version, engine, state, ready_replicas, total_replicas)
    SELECT :region, model, version, engine, state, ready_replicas, total_replicas
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS listed
        (model text, version text, engine text, state text, ready_replicas bigint, total_replicas bigint)
    ON CONFLICT (region, model, version) DO UPDATE SET
        engine = excluded.engine, state = excluded.state,
        ready_replicas = excluded.ready_replicas, total_replicas = excluded.total_replicas,
        changed_at = clock_timestamp()
    WHERE (old.engine, old.state, old.ready_replicas, old.total_replicas)
        IS DISTINCT FROM (excluded.engine, excluded.state, excluded.ready_replicas, excluded.total_replicas)""")
"""One parameter holds all rows: a statement with a place for each value would be compiled anew for every report, on
the loop that answers decisions (a third of a second for 2,000 deployments)."""


async def _replace_deployments(connection: AsyncConnection, region: str, report: Report) -> None:
    """The region's deployments become exactly those of the report; rows that did not change are not written."""
    rows = {
        (item.model, item.version): {
            "model": item.model,
            "version": item.version,
            "engine": item.engine,
            "state": item.state,
            "ready_replicas": item.replicas.ready,
            "total_replicas": item.replicas.total,
        }
        for item in report.deployments
    }
    told = {"region": region, "rows": msgspec.json.encode(list(rows.values())).decode()}
    await connection.execute(_DELETE_UNLISTED, told)
    if rows:
        await connection.execute(_PUT_LISTED, told)
