"""The last hours in samples: each region's arrivals and utilisation at evenly spaced moments, from the reports kept.

Moments stand on a fixed grid, so that a sample once taken is never read again: what is past does not change.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from director.core.capacity import slots, utilisation
from director.core.report import Report
from director.store import moments
from director.store.database import Database
from director.store.moments import PastReport

SAMPLES_MAX = 180
SAMPLES_MIN = 24
ROWS_MAX = 6_000
"""Reports read for one picture: with 200 regions that leaves 30 moments, and the first look takes about a second."""
KEPT_MAX = 60_000
"""Samples remembered: ten pictures of the largest kind."""
WITHIN_MS = 15_000
"""A report counts for this long: three intervals of the usual length, so that one late report is no gap."""

_decode = msgspec.json.Decoder(Report).decode


class Sample(Struct, frozen=True):
    """One region at one moment; None is unknown."""

    arrived: float | None
    """Tokens/s."""
    utilisation: float | None


class Series(Struct, frozen=True):
    """Moments, epoch ms, and for each region a sample at each; None where it said nothing."""

    moments: tuple[int, ...]
    regions: dict[str, tuple[Sample | None, ...]]

    def shares(self, region: str) -> list[float | None]:
        """The region's part of all that arrived anywhere."""
        totals = [0.0] * len(self.moments)
        for samples in self.regions.values():
            for i, one in enumerate(samples):
                totals[i] += (one.arrived or 0.0) if one is not None else 0.0
        own = self.regions.get(region, (None,) * len(self.moments))
        return [
            one.arrived / total if one is not None and one.arrived is not None and total > 0 else None
            for one, total in zip(own, totals, strict=True)
        ]

    def utilisations(self, region: str) -> list[float | None]:
        own = self.regions.get(region, (None,) * len(self.moments))
        return [None if one is None else one.utilisation for one in own]


class History:
    """Of one server: remembers the samples it took."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], Sample | None] = {}
        """By region, moment and distance of moments: a coarse picture looks further back for a report."""
        self._lock = asyncio.Lock()

    async def series(self, database: Database, regions: Sequence[str], end_ms: int, span_ms: int) -> Series:
        """The span up to `end_ms`. Raises DatabaseUnavailable."""
        times = grid(end_ms, span_ms, len(regions))
        step_ms = times[1] - times[0]
        async with self._lock:
            if len(self._known) > KEPT_MAX:
                self._known.clear()
            known = self._known
            missing = [at for at in times if any((region, at, step_ms) not in known for region in regions)]
            found = await moments.reports_at(database, regions, missing, max(step_ms, WITHIN_MS))
            taken = await asyncio.to_thread(_samples, found)
            for region in regions:
                for at in missing:
                    known[region, at, step_ms] = taken.get((region, at))
            return Series(
                tuple(times),
                {region: tuple(known.get((region, at, step_ms)) for at in times) for region in regions},
            )


def grid(end_ms: int, span_ms: int, regions: int) -> list[int]:
    """Evenly spaced moments, multiples of their distance, the last at or just before `end_ms`."""
    count = max(SAMPLES_MIN, min(SAMPLES_MAX, ROWS_MAX // max(1, regions)))
    step_ms = max(5_000, -(-span_ms // count // 5_000) * 5_000)
    last = end_ms // step_ms * step_ms
    return [last - step_ms * back for back in range(span_ms // step_ms, -1, -1)]


def _samples(found: Iterable[PastReport]) -> dict[tuple[str, int], Sample]:
    return {
        (one.region, one.at_ms): sample
        for one in found
        if (sample := sample_of(zlib.decompress(one.body_zlib))) is not None
    }


def sample_of(body: bytes) -> Sample | None:
    """A report as it came, summed over its deployments; None where this release cannot read it."""
    try:
        report = _decode(body)
    except msgspec.MsgspecError:
        return None
    rates = [d.arrived.tokens_per_s for d in report.deployments if d.arrived is not None]
    known = [rate for rate in rates if rate is not None]
    used = [(part, slots(d)) for d in report.deployments if (part := utilisation(d)) is not None]
    weight = sum(one for _, one in used)
    return Sample(
        arrived=sum(known) if known else None,
        utilisation=sum(part * one for part, one in used) / weight if weight > 0 else None,
    )
