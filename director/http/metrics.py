"""What the HTTP surface exports to Prometheus. Declared here, and nowhere else.

The decision path adds to plain integers; a collector turns them into metrics when somebody scrapes. Labels are bounded:
regions, models and reasons come from the policy and the plan, never from a request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from director.replica.view import ReplicaView

DECISION_LABELS = ["region", "model", "reason", "affinity"]
DECISION_US = (10, 20, 50, 100, 200, 500, 1_000, 5_000)
CELLS_MAX = 50_000
"""Distinct label sets; beyond, they share one called `other`."""


class Counters:
    """Plain counters of one process. Added to on the serving loop only."""

    def __init__(self) -> None:
        self.decisions: dict[tuple[str, str, str, str], list[int]] = {}
        self.refusals: dict[str, int] = {}
        self.reports: dict[tuple[str, str], int] = {}
        self.deployments_dropped: dict[str, int] = {}
        self.outcomes: dict[str, int] = {}
        self.timed = [0] * (len(DECISION_US) + 1)
        """Sampled decisions by duration: the first bucket of `DECISION_US` that holds them, or beyond."""
        self.timed_ns = 0

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
        self.reports[region, outcome] = self.reports.get((region, outcome), 0) + 1

    def dropped(self, region: str, count: int) -> None:
        self.deployments_dropped[region] = self.deployments_dropped.get(region, 0) + count

    def outcome(self, kind: str, count: int) -> None:
        self.outcomes[kind] = self.outcomes.get(kind, 0) + count

    def decided_in(self, duration_ns: int) -> None:
        self.timed[bisect_left(DECISION_US, duration_ns / 1000)] += 1
        self.timed_ns += duration_ns


class HttpCollector(Collector):
    """Counters and the replica's own state as Prometheus metrics, at the moment of a scrape."""

    def __init__(self, counters: Counters, view: ReplicaView) -> None:
        self._counters = counters
        self._view = view

    def collect(self) -> Iterator[Metric]:
        yield from self._counted()
        yield from self._replica()
        yield from self._plan()

    def _counted(self) -> Iterator[Metric]:
        counters = self._counters
        decisions = CounterMetricFamily("director_decisions", "Decisions answered.", labels=DECISION_LABELS)
        for labels, cell in counters.decisions.items():
            decisions.add_metric(list(labels), cell[0])
        yield decisions
        yield _counter("director_decision_refusals", "Questions refused, by code.", "code", counters.refusals)
        reports = CounterMetricFamily("director_reports", "Reports received.", labels=["region", "outcome"])
        for (region, outcome), count in counters.reports.items():
            reports.add_metric([region, outcome], count)
        yield reports
        yield _counter(
            "director_report_deployments_dropped",
            "Deployments left out of accepted reports.",
            "region",
            counters.deployments_dropped,
        )
        yield _counter("director_outcomes", "Requests whose end an L7 told, by class.", "class", counters.outcomes)
        yield self._durations()

    def _durations(self) -> Metric:
        counted, buckets = 0, []
        for bound, count in zip((*(f"{us / 1e6:g}" for us in DECISION_US), "+Inf"), self._counters.timed, strict=True):
            counted += count
            buckets.append((bound, float(counted)))
        text = "Time from a whole request to its answer's bytes; one request in 64 is timed."
        return HistogramMetricFamily(
            "director_decision_seconds", text, buckets=buckets, sum_value=self._counters.timed_ns / 1e9
        )

    def _replica(self) -> Iterator[Metric]:
        view = self._view
        yield _gauge("director_ready", "1 when there is a plan to decide by.", view.table is not None)
        yield _gauge("director_static", "1 while decisions rest on an old plan.", view.static)
        yield _gauge("director_database_away", "1 while Postgres cannot be reached.", view.degraded)
        yield _gauge("director_plan_age_seconds", "Age of the planner's last heartbeat.", view.plan_age_ms() / 1000)
        yield _gauge("director_policy_version", "Version of the policy in use.", view.policy_version)

    def _plan(self) -> Iterator[Metric]:
        table = self._view.table
        if table is None:
            return
        plan = table.plan
        yield _gauge("director_plan_epoch", "Epoch of the plan in use.", plan.epoch)
        labels = ["region", "model", "version"]
        texts = {
            "capacity_tokens_per_second": "What a deployment can sustain.",
            "offered_tokens_per_second": "New demand whose home a deployment is.",
            "pinned_tokens_per_second": "Demand that sessions hold there.",
            "admit_home_ratio": "Fraction of its home demand that is let in.",
            "breaker_open": "1 while the breaker is open, 0.5 while half open.",
            "demand_capacity_ratio": "Offered and pinned demand ÷ capacity, shedding included: scale by this.",
        }
        families = {
            name: GaugeMetricFamily(f"director_deployment_{name}", text, labels=labels) for name, text in texts.items()
        }
        for one in plan.deployments:
            key = [one.region, one.model, one.version]
            demand = one.offered_tokens_per_s + one.pinned_tokens_per_s
            families["capacity_tokens_per_second"].add_metric(key, one.capacity_tokens_per_s)
            families["offered_tokens_per_second"].add_metric(key, one.offered_tokens_per_s)
            families["pinned_tokens_per_second"].add_metric(key, one.pinned_tokens_per_s)
            families["admit_home_ratio"].add_metric(key, one.admit_home)
            families["breaker_open"].add_metric(key, {"closed": 0.0, "half_open": 0.5, "open": 1.0}[one.breaker])
            if one.capacity_tokens_per_s > 0:
                families["demand_capacity_ratio"].add_metric(key, demand / one.capacity_tokens_per_s)
        yield from families.values()


def _counter(name: str, text: str, label: str, counts: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


class MetricsPage:
    """The registry of one process. Others (DNS, the follower) may register collectors of their own with it."""

    content_type = "text/plain; version=0.0.4"

    def __init__(self, counters: Counters, view: ReplicaView) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(HttpCollector(counters, view))

    def render(self) -> bytes:
        return generate_latest(self.registry)
