"""Everything that a tick of the planner reads, of one moment, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from director.core.observations import Observations, ReceivedReport
from director.store import demand, operators, outcomes, probes
from director.store.database import Database
from director.store.reports import latest_reports_of
from director.store.tables import latest_reports, policies
from director.store.times import as_ms, database_now


class Observed(NamedTuple):
    """`now_ms`: the database's clock. `cursors`: store them with the state, so that the next leader goes on there."""

    now_ms: int
    observations: Observations
    cursors: dict[str, int]


class Observer:
    """Reads what came in since `cursors`. Remembers reports, so that only changed ones travel and are decoded."""

    def __init__(self, db: Database, cursors: Mapping[str, int] | None = None) -> None:
        self._db = db
        self._cursors = dict(cursors or {})
        self._reports: dict[str, tuple[tuple[str, int, int], ReceivedReport]] = {}

    async def observe(self) -> Observed:
        """The next observations; `outage_ms` is the caller's to fill in. Raises DatabaseUnavailable.

        What was read is forgotten by the reader only when the call succeeds: after an error the next call reads it.
        """
        async with self._db.snapshot() as connection:
            now_ms = int((await connection.execute(select(as_ms(database_now())))).scalar_one())
            reports = await self._read_reports(connection)
            demand_, demand_cursor = await demand.since_in(connection, self._cursors.get("demand"))
            outcomes_, outcomes_cursor = await outcomes.since_in(connection, self._cursors.get("outcomes"))
            probes_, probes_cursor = await probes.since_in(connection, self._cursors.get("probes"))
            settings = await operators.settings_of(connection)
            version = (await connection.execute(select(func.coalesce(func.max(policies.c.version), 0)))).scalar_one()
        self._cursors = {"demand": demand_cursor, "outcomes": outcomes_cursor, "probes": probes_cursor}
        observations = Observations(
            reports=reports,
            demand=demand_,
            operators=settings,
            probes=probes_,
            outcomes=outcomes_,
            policy_version=int(version),
        )
        return Observed(now_ms, observations, dict(self._cursors))

    async def _read_reports(self, connection: AsyncConnection) -> tuple[ReceivedReport, ...]:
        column = latest_reports.c
        query = select(column.region, column.boot_id, column.sequence, as_ms(column.received_at))
        marks = {row[0]: (row[1], row[2], row[3]) for row in (await connection.execute(query)).all()}
        known = self._reports
        changed = {region for region, mark in marks.items() if region not in known or known[region][0] != mark}
        if changed:
            for received in await latest_reports_of(connection, changed):
                known[received.region] = (marks[received.region], received)
        for gone in known.keys() - marks.keys():
            del known[gone]
        return tuple(known[region][1] for region in sorted(marks))
