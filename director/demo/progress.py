"""One line a second that a person can read."""

from __future__ import annotations

import time
from collections.abc import Sequence

from director.demo.edge import Second
from director.demo.fleet import FleetStatus

SMOOTH_SECONDS = 5
"""Shares are means over these: one second's fifty requests say little about five regions."""


class Progress:
    def __init__(self, regions: Sequence[str]) -> None:
        self._regions = regions
        self._last: list[Second] = []

    def line(self, second: Second, status: FleetStatus | None, in_flight: int) -> str:
        """What the last second did, and shares of the last few."""
        self._last = [*self._last, second][-SMOOTH_SECONDS:]
        decided = sum(s.decided for s in self._last) or 1
        shares = "  ".join(
            f"{region} {sum(s.regions[region] for s in self._last) / decided:4.0%}" for region in self._regions
        )
        reasons = {name: sum(s.reasons[name] for s in self._last) / decided for name in ("overflow", "overloaded")}
        parts = [
            time.strftime("%H:%M:%S"),
            f"{sum(s.asked for s in self._last) / len(self._last):3.0f} req/s",
            shares,
            f"overflow {reasons['overflow']:3.0%}",
        ]
        if reasons["overloaded"] >= 0.005:
            parts.append(f"overloaded {reasons['overloaded']:.0%}")
        parts += self._troubles(second, status)
        parts.append(f"running {sum(status.running.values()) if status else in_flight}")
        if second.epoch:
            parts.append(f"plan {second.epoch}")
        return " | ".join(parts)

    @staticmethod
    def _troubles(second: Second, status: FleetStatus | None) -> list[str]:
        parts = []
        if second.refused:
            parts.append(f"refused {second.refused}")
        if second.failed:
            parts.append("failed " + " ".join(f"{kind} {count}" for kind, count in sorted(second.failed.items())))
        if second.lost:
            parts.append(f"lost {second.lost}")
        if second.undecided:
            parts.append(f"undecided {second.undecided}")
        if second.static:
            parts.append("STATIC")
        if status is not None and status.failing:
            parts.append(f"FAILING {status.failing} ({status.failure}, {status.for_s:.0f} s)")
        return parts
