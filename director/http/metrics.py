"""What the HTTP surface counts: plain integers, added to on the serving loop and read by `exposition` at a scrape.

Labels are bounded: regions, models and reasons come from the policy and the plan, never from a request.
"""

from __future__ import annotations

from bisect import bisect_left

from director.metrics.catalog import DECISION_BOUNDS_S

CELLS_MAX = 50_000
"""Distinct label sets of decisions; beyond, they share one called `other`."""
REGIONS_MAX = 2_000
"""Distinct regions of reports: before a first plan no policy says which exist."""


class Counters:
    """Plain counters of one process. Added to on the serving loop only."""

    def __init__(self) -> None:
        self.decisions: dict[tuple[str, str, str, str], list[int]] = {}
        self.refusals: dict[str, int] = {}
        self.reports: dict[tuple[str, str], int] = {}
        self.deployments_dropped: dict[str, int] = {}
        self.outcomes: dict[str, int] = {}
        self.timed = [0] * (len(DECISION_BOUNDS_S) + 1)
        """Sampled decisions by duration: the first bucket of `DECISION_BOUNDS_S` that holds them, or beyond."""
        self.timed_s = 0.0
        self.logged = 0
        """Decisions and refusals written to the decision log."""

    def decision_cell(self, region: str, model: str, reason: str, affinity: str) -> list[int]:
        """The counter of one label set, as a list of one: its holder adds without a look-up."""
        labels = (region, model, reason, affinity)
        cell = self.decisions.get(labels)
        if cell is None:
            if len(self.decisions) >= CELLS_MAX:
                labels = ("other", "other", reason, affinity)
            cell = self.decisions.setdefault(labels, [0])
        return cell

    def refused(self, code: str) -> None:
        self.refusals[code] = self.refusals.get(code, 0) + 1

    def report(self, region: str, outcome: str) -> None:
        if len(self.reports) >= REGIONS_MAX and (region, outcome) not in self.reports:
            region = "other"
        self.reports[region, outcome] = self.reports.get((region, outcome), 0) + 1

    def dropped(self, region: str, count: int) -> None:
        self.deployments_dropped[region] = self.deployments_dropped.get(region, 0) + count

    def outcome(self, kind: str, count: int) -> None:
        self.outcomes[kind] = self.outcomes.get(kind, 0) + count

    def decided_in(self, duration_ns: int) -> None:
        duration_s = duration_ns / 1e9
        self.timed[bisect_left(DECISION_BOUNDS_S, duration_s)] += 1
        self.timed_s += duration_s
