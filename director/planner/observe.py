"""What came in since the last tick, read from the database into the value that `step` takes."""

from __future__ import annotations

from director.core.observations import Observations, ReceivedReport
from director.store import demand, operators, outcomes, probes, reports
from director.store.database import Database

OUTAGE_MS_MIN = 5_000
"""A shorter silence of every region at once is an ordinary gap between ticks and reports."""


class Observer:
    """Remembers how far it has read. Make a new one with each leadership."""

    def __init__(self, database: Database, last_tick_ms: int) -> None:
        self._database = database
        self._last_tick_ms = last_tick_ms
        self._demand_cursor = last_tick_ms
        self._probe_cursor = last_tick_ms
        self._outcome_cursor: int | None = None

    async def observe(self, policy_version: int, now_ms: int) -> Observations:
        """Everything since the last observation. Raises DatabaseUnavailable; nothing counts as read then."""
        received = tuple(await reports.latest_reports(self._database))
        samples = await demand.since(self._database, self._demand_cursor)
        probed = await probes.since(self._database, self._probe_cursor)
        told = await outcomes.since(self._database, self._outcome_cursor)
        settings = await operators.list_settings(self._database)
        observations = Observations(
            reports=received,
            demand=tuple(samples),
            operators=tuple(settings),
            probes=tuple(probed),
            outcomes=told.outcomes,
            policy_version=policy_version,
            outage_ms=outage_ms(received, self._last_tick_ms, now_ms),
        )
        self._last_tick_ms = now_ms
        self._outcome_cursor = told.cursor
        return observations


def outage_ms(received: tuple[ReceivedReport, ...], last_tick_ms: int, now_ms: int) -> int:
    """How long nobody could report: from the last tick to the first sign of life after it.

    While the database is away no report can be taken and no tick happens; the first report after it marks the end.
    No region is to age by that time, because none could have spoken.
    """
    if last_tick_ms <= 0:
        return 0
    heard_since = [report.received_at_ms for report in received if report.received_at_ms > last_tick_ms]
    silent_ms = min(heard_since, default=now_ms) - last_tick_ms
    return silent_ms if silent_ms >= OUTAGE_MS_MIN else 0
