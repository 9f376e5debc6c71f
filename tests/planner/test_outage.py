from __future__ import annotations

import pytest

from director.core.observations import ReceivedReport
from director.core.report import Report
from director.planner.outage import outage_ms

REPORT = Report(schema=1, boot_id="b", sequence=1, observed_at="2026-01-01T00:00:00Z", interval_s=5, deployments=())


@pytest.mark.parametrize(
    ("why", "received_at_ms", "last_tick_ms", "now_ms", "expected_ms"),
    [
        ("the first tick ever ages by nothing before it", [1_000], 0, 100_000, 0),
        ("a tick a second after the last is no outage", [99_000, 95_000], 99_500, 100_500, 0),
        ("a take-over of three seconds is no outage", [97_000], 97_500, 100_500, 0),
        ("a minute in which nobody could report", [30_000, 38_000], 40_000, 100_000, 60_000),
        ("the outage ends with the first report after it", [30_000, 90_000, 99_000], 40_000, 100_000, 50_000),
        ("a planner that was away while reports went on", [41_000, 99_000], 40_000, 100_000, 0),
        ("no region is known at all", [], 40_000, 100_000, 60_000),
    ],
)
def test_silence_of_all_is_an_outage(
    why: str, received_at_ms: list[int], last_tick_ms: int, now_ms: int, expected_ms: int
) -> None:
    """Time in which nobody could be heard is told from the silence of one region."""
    received = tuple(ReceivedReport(f"r{n}", at_ms, REPORT) for n, at_ms in enumerate(received_at_ms))
    assert outage_ms(received, last_tick_ms, now_ms) == expected_ms, why
