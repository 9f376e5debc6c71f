"""The utilisation of the deployments of an opened region over the last minutes, as small lines."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from director.core.capacity import utilisation
from director.core.plan import DeploymentKey
from director.core.report import Report
from director.http.state import HttpState
from director.store import moments
from director.store.database import DatabaseUnavailable
from director.store.moments import PastReport

MINUTES = 15
POINTS = 30
STEP_MS = MINUTES * 60_000 // POINTS
WIDTH, HEIGHT = 60.0, 16.0
TOP = 1.2
"""The utilisation at the upper edge."""

Points = dict[DeploymentKey, float]


class Trend(Struct, frozen=True):
    """An SVG path over `WIDTH` × `HEIGHT`; what was not reported is a gap."""

    path: str
    last: float | None


class Trends:
    """Of one server: remembers the points it read, as long as a line still needs them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Points] = {}

    async def of(self, http: HttpState, regions: Sequence[str]) -> dict[DeploymentKey, Trend]:
        """For every deployment of these regions; nothing while the database is away."""
        database = http.view.database
        if database is None or http.view.degraded or not regions:
            return {}
        last = http.view.now_ms() // STEP_MS * STEP_MS
        times = [last - STEP_MS * back for back in range(POINTS - 1, -1, -1)]
        missing = [at for at in times if any((region, at) not in self._known for region in regions)]
        try:
            found = await moments.reports_at(database, regions, missing, STEP_MS)
        except DatabaseUnavailable:
            return {}
        read = await asyncio.to_thread(_points, found)
        for region in regions:
            for at in missing:
                self._known[region, at] = read.get((region, at), {})
        self._known = {key: points for key, points in self._known.items() if key[1] >= times[0]}
        keys = {key for region in regions for at in times for key in self._known.get((region, at), {})}
        return {key: trend([self._known.get((key.region, at), {}).get(key) for at in times]) for key in sorted(keys)}


def _points(found: Iterable[PastReport]) -> dict[tuple[str, int], Points]:
    """The utilisation of each deployment in each report that this release can read."""
    points: dict[tuple[str, int], Points] = {}
    for one in found:
        try:
            report = msgspec.json.decode(zlib.decompress(one.body_zlib), type=Report)
        except msgspec.MsgspecError:
            continue
        used = ((DeploymentKey(one.region, d.model, d.version), utilisation(d)) for d in report.deployments)
        points[one.region, one.at_ms] = {key: value for key, value in used if value is not None}
    return points


def trend(values: Sequence[float | None]) -> Trend:
    """A line through what is known."""
    path, pen_down = "", False
    for i, value in enumerate(values):
        if value is None:
            pen_down = False
            continue
        x = WIDTH * i / max(1, len(values) - 1)
        y = HEIGHT - HEIGHT * min(TOP, max(0.0, value)) / TOP
        path += f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}"
        pen_down = True
    known = [value for value in values if value is not None]
    return Trend(path, known[-1] if known else None)
