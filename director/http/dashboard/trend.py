"""The utilisation of the deployments of an opened region over the last minutes, as small lines."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from director.core.capacity import utilisation
from director.core.plan import DeploymentKey
from director.core.report import Report
from director.http.state import HttpState
from director.store import moments
from director.store.database import DatabaseUnavailable

MINUTES = 15
POINTS = 30
STEP_MS = MINUTES * 60_000 // POINTS
WIDTH, HEIGHT = 60.0, 16.0
TOP = 1.2
"""The utilisation at the upper edge."""


class Trend(Struct, frozen=True):
    """An SVG path over `WIDTH` × `HEIGHT`; what was not reported is a gap."""

    path: str
    last: float | None


async def trends(http: HttpState, regions: Sequence[str]) -> dict[DeploymentKey, Trend]:
    """For every deployment of these regions; nothing while the database is away."""
    database = http.view.database
    if database is None or http.view.degraded or not regions:
        return {}
    last = http.view.now_ms() // STEP_MS * STEP_MS
    times = [last - STEP_MS * back for back in range(POINTS - 1, -1, -1)]
    try:
        found = await moments.reports_at(database, regions, times, STEP_MS)
    except DatabaseUnavailable:
        return {}
    points: dict[DeploymentKey, dict[int, float]] = {}
    for one in found:
        try:
            report = msgspec.json.decode(one.body, type=Report)
        except msgspec.MsgspecError:
            continue
        for d in report.deployments:
            used = utilisation(d)
            if used is not None:
                points.setdefault(DeploymentKey(one.region, d.model, d.version), {})[one.at_ms] = used
    return {key: trend([values.get(at) for at in times]) for key, values in points.items()}


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
