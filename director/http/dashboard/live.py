"""The figures that the plan does not hold: newest reports, operators' settings, what was decided in the last seconds.

Read from the database when a page asks, once for all who look, and kept for a moment; while it is away, nothing is
invented: what rests on these figures shows as unknown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from msgspec import Struct

from director.core.observations import DemandSample, OperatorSetting, ReceivedReport
from director.core.plan import DeploymentKey
from director.core.report import DeploymentReport
from director.core.request import RouteKey
from director.http.state import HttpState
from director.store import demand, operators, reports
from director.store.database import Database, DatabaseUnavailable

KEPT_S = 1.0
"""Pages ask every two seconds or slower: two browsers cost as much as one."""

BATCH = 25
"""Reports decoded at a stretch: fifty deployments each take some 5 ms."""


class RouteRate(Struct):
    """Tokens/s of one route, summed over replicas. `decided` by region."""

    asked: float
    decided: dict[str, float]

    @property
    def refused(self) -> float:
        return max(0.0, self.asked - sum(self.decided.values()))


class Figures(Struct, frozen=True):
    """One reading. `known` is False while the database is away: then everything is empty."""

    known: bool
    reports: dict[str, ReceivedReport] = {}
    deployments: dict[DeploymentKey, DeploymentReport] = {}
    settings: tuple[OperatorSetting, ...] = ()
    routes: dict[RouteKey, RouteRate] = {}

    def tokens(self) -> dict[RouteKey, float]:
        """Demand by route, tokens/s: what weighs routes against each other."""
        return {key: rate.asked for key, rate in self.routes.items()}


UNKNOWN = Figures(known=False)


class Live:
    """Of one server."""

    def __init__(self, http: HttpState) -> None:
        self._http = http
        self._lock = asyncio.Lock()
        self._read_at_s = -KEPT_S
        self._figures = UNKNOWN

    async def figures(self) -> Figures:
        """The newest figures, at most `KEPT_S` old. Never raises because the database is away."""
        async with self._lock:
            if time.monotonic() - self._read_at_s < KEPT_S:
                return self._figures
            database, table = self._http.view.database, self._http.view.table
            if database is None or table is None or self._http.view.degraded:
                return UNKNOWN
            try:
                received = await _newest(database, tuple(table.policy.regions))
                settings = await operators.list_settings(database)
                samples, _ = await demand.since(database, None)
            except DatabaseUnavailable:
                return UNKNOWN
            self._figures = Figures(
                known=True,
                reports={one.region: one for one in received},
                deployments={
                    DeploymentKey(one.region, d.model, d.version): d for one in received for d in one.report.deployments
                },
                settings=settings,
                routes=route_rates(samples),
            )
            self._read_at_s = time.monotonic()
            return self._figures


async def _newest(database: Database, regions: Sequence[str]) -> list[ReceivedReport]:
    """The newest report of each region, a few at a time: between two batches the loop answers others."""
    received: list[ReceivedReport] = []
    for first in range(0, len(regions), BATCH):
        async with database.single() as connection:
            received += await reports.latest_reports_of(connection, set(regions[first : first + BATCH]))
    return received


def route_rates(samples: Sequence[DemandSample]) -> dict[RouteKey, RouteRate]:
    """Tokens/s by route, each replica's over the time from its first sample to its last, quiet seconds included."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for sample in samples:
        begun_ms = sample.at_ms - sample.span_ms
        first[sample.replica] = min(begun_ms, first.get(sample.replica, begun_ms))
        last[sample.replica] = max(sample.at_ms, last.get(sample.replica, sample.at_ms))
    found: dict[RouteKey, RouteRate] = {}
    for sample in samples:
        per_s = 1000.0 / max(1, last[sample.replica] - first[sample.replica])
        for told in sample.routes:
            rate = found.setdefault(RouteKey(*told.route), RouteRate(0.0, {}))
            rate.asked += (told.new_tokens + sum(one.tokens for one in told.pinned)) * per_s
            for part in told.decided:
                rate.decided[part.region] = rate.decided.get(part.region, 0.0) + part.tokens * per_s
    return found
