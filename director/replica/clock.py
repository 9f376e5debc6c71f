"""The time that processes agree on: the database's, carried on by this process's monotonic clock.

A host's wall clock may jump; the monotonic clock may not, and the database's is one for all. So a reading of the
database's clock becomes an offset, and every later question adds the monotonic clock to it. Until the database was
read once, the wall clock at start stands in.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SAMPLE_MAX_AGE_S = 60.0
"""A reading stays the best one for this long at most: two hosts' oscillators drift apart by some ms a minute."""


class Clock:
    """Milliseconds since the epoch, by the database's clock as well as it is known here."""

    def __init__(
        self, monotonic_ns: Callable[[], int] = time.monotonic_ns, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()
        self._round_trip_ns: int | None = None
        self._read_at_ns = 0
        self.from_database = False

    def now_ms(self) -> int:
        return (self._offset_ns + self._monotonic_ns()) // 1_000_000

    def reading(self, database_ms: int, asked_at_ns: int, answered_at_ns: int) -> None:
        """Take the database's `now()`, asked and answered at these times of the monotonic clock.

        The true moment lies between the two, so a reading is off by half the round trip at most. A slow reading does
        not replace a quick one, unless they contradict each other: then the database's clock has really moved (a
        fail-over to another host), and it is followed.
        """
        round_trip_ns = answered_at_ns - asked_at_ns
        offset_ns = database_ms * 1_000_000 - (asked_at_ns + answered_at_ns) // 2
        uncertain_ns = round_trip_ns // 2 + 2_000_000
        if self._round_trip_ns is not None and answered_at_ns - self._read_at_ns < SAMPLE_MAX_AGE_S * 1e9:
            agrees = abs(offset_ns - self._offset_ns) <= uncertain_ns + self._round_trip_ns // 2
            if agrees and round_trip_ns >= self._round_trip_ns:
                return
        self._offset_ns = offset_ns
        self._round_trip_ns = round_trip_ns
        self._read_at_ns = answered_at_ns
        self.from_database = True
