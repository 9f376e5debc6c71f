"""Summaries → the report a region sends: boot id, sequence, health."""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import Sequence

from msgspec import structs

from director.agent.summary import Summary
from director.core.report import SCHEMA, Health, Report


def new_boot_id() -> str:
    """Another at each start: a director tells a restarted agent, whose sequence begins anew, from an old report."""
    return f"{time.time_ns() // 1_000_000:012x}-{secrets.token_hex(8)}"


class ReportBuilder:
    def __init__(self, interval_s: float, boot_id: str | None = None) -> None:
        self.boot_id = boot_id or new_boot_id()
        self.sequence = 0
        self._interval_s = interval_s

    def build(self, summaries: Sequence[Summary], gateway: Health, retry_after_s: float | None = None) -> Report:
        """`retry_after_s`: what the region's gateway asks for, which stands before all its deployments."""
        self.sequence += 1
        return Report(
            schema=SCHEMA,
            boot_id=self.boot_id,
            sequence=self.sequence,
            observed_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            interval_s=self._interval_s,
            health=region_health(summaries),
            gateway=gateway,
            deployments=tuple(structs.replace(one.report, retry_after_s=retry_after_s) for one in summaries),
        )


def region_health(summaries: Sequence[Summary]) -> Health:
    """`down` without a ready replica anywhere, `degraded` when fewer than half of all are ready."""
    ready = sum(summary.report.replicas.ready for summary in summaries)
    total = sum(summary.report.replicas.total for summary in summaries)
    if not ready:
        return "down"
    return "degraded" if 2 * ready < total else "ok"
