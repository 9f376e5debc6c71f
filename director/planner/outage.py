"""How long nobody could report: time that no region is to age by."""

from __future__ import annotations

from director.core.observations import ReceivedReport

OUTAGE_MS_MIN = 5_000
"""A shorter silence of every region at once is an ordinary gap between ticks and reports."""


def outage_ms(received: tuple[ReceivedReport, ...], last_tick_ms: int, now_ms: int) -> int:
    """From the last tick to the first sign of life after it, ms; 0 for an ordinary gap.

    While the database is away no report can be taken and no tick happens, and after a restart of everything the same
    is true of the time before. The first report after it marks its end. Only the newest report of each region is
    known, so what is taken for the first may be late by one interval: a region gets that much grace, once.
    """
    if last_tick_ms <= 0:
        return 0
    heard_since = [report.received_at_ms for report in received if report.received_at_ms > last_tick_ms]
    silent_ms = min(heard_since, default=now_ms) - last_tick_ms
    return silent_ms if silent_ms >= OUTAGE_MS_MIN else 0
