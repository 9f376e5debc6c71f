"""`GET /metrics` of an api process: what was asked of it, how the replica is, and the plan it decides by.

What is counted is read on the serving loop, where it is added to. The plan's part is written once for each plan and
each scraped plan only, beside the loop when it is large: decisions go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.table import RoutingTable
from director.http.metrics import Counters
from director.metrics import catalog
from director.metrics.metric import Metric
from director.metrics.process import process_text
from director.metrics.text import CONTENT_TYPE, Page, labels
from director.replica.view import ReplicaView

INLINE_MAX = 200
"""Deployments, or label sets of decisions: some 3 ms of writing. More is written in a thread."""

T = TypeVar("T")

BREAKER = {"closed": 0.0, "half_open": 0.5, "open": 1.0}

DEPLOYMENT_FIGURES: dict[str, Callable[[DeploymentPlan], float | None]] = {
    catalog.READY_REPLICAS.name: lambda one: one.ready_replicas,
    catalog.CAPACITY.name: lambda one: one.capacity_tokens_per_s,
    catalog.OFFERED.name: lambda one: one.offered_tokens_per_s,
    catalog.PINNED.name: lambda one: one.pinned_tokens_per_s,
    catalog.DEMAND_CAPACITY.name: lambda one: _demand_ratio(one),
    catalog.HEADROOM.name: lambda one: one.headroom_tokens_per_s,
    catalog.ADMIT_HOME.name: lambda one: one.admit_home,
    catalog.ADMIT_OVERFLOW.name: lambda one: one.admit_overflow[0] if one.admit_overflow else 0.0,
    catalog.RELEASE.name: lambda one: one.release,
    catalog.QUALITY.name: lambda one: one.quality,
    catalog.TRIM.name: lambda one: one.trim,
    catalog.BREAKER_OPEN.name: lambda one: BREAKER[one.breaker],
    catalog.BREAKER_HELD_IN.name: lambda one: one.breaker_held_in,
}

REGION_FIGURES: dict[str, Callable[[RegionPlan], float]] = {
    catalog.REGION_DOWN.name: lambda one: one.operator is not None and one.operator.kind == "down",
    catalog.REGION_DRAINING.name: lambda one: one.operator is not None and one.operator.kind == "drain",
    catalog.REGION_SHARE_CAP.name: lambda one: 1.0 if one.share_cap is None else one.share_cap,
}


class MetricsPage:
    """The exposition of one process."""

    content_type = CONTENT_TYPE

    def __init__(self, counters: Counters, view: ReplicaView) -> None:
        self._counters = counters
        self._view = view
        self._table: RoutingTable | None = None
        self._plan_text = ""

    async def render(self) -> bytes:
        """The whole page."""
        page = Page()
        _counted(page, self._counters)
        _replica(page, self._view)
        # Taken here, at one moment of the loop; what becomes of it may take its time.
        decisions = [(names, cell[0]) for names, cell in self._counters.decisions.items()]
        parts = [page.text(), process_text(), await _written(_decisions, decisions, len(decisions)), await self._plan()]
        return "".join(parts).encode()

    async def _plan(self) -> str:
        table = self._view.table
        if table is None:
            return ""
        if table is not self._table:
            text = await _written(plan_text, table.plan, len(table.plan.deployments))
            self._table, self._plan_text = table, text
            return text
        return self._plan_text


async def _written(write: Callable[[T], str], what: T, size: int) -> str:
    return await asyncio.to_thread(write, what) if size > INLINE_MAX else write(what)


def plan_text(plan: Plan) -> str:
    """A plan as metrics."""
    page = Page()
    page.one(catalog.PLAN_EPOCH, plan.epoch)
    page.one(catalog.PLAN_STATIC, plan.static)
    page.many(
        catalog.REGION_FRESHNESS,
        [
            (labels(catalog.REGION_FRESHNESS, region=one.region, freshness=freshness), one.freshness == freshness)
            for one in plan.regions
            for freshness in ("fresh", "stale", "lost", "unseen")
        ],
    )
    names = [labels(catalog.REGION_DOWN, region=one.region) for one in plan.regions]
    for name, figure in REGION_FIGURES.items():
        page.many(catalog.CATALOG[name], zip(names, map(figure, plan.regions), strict=True))
    keys = [
        labels(catalog.CAPACITY, region=one.region, model=one.model, version=one.version) for one in plan.deployments
    ]
    for name, told in DEPLOYMENT_FIGURES.items():
        figures = zip(keys, map(told, plan.deployments), strict=True)
        page.many(catalog.CATALOG[name], ((key, value) for key, value in figures if value is not None))
    return page.text()


def _demand_ratio(one: DeploymentPlan) -> float | None:
    """None without capacity: no ratio says how short a deployment is that can do nothing."""
    if one.capacity_tokens_per_s <= 0:
        return None
    return (one.offered_tokens_per_s + one.pinned_tokens_per_s) / one.capacity_tokens_per_s


def _decisions(counted: list[tuple[tuple[str, str, str, str], int]]) -> str:
    page = Page()
    page.many(
        catalog.DECISIONS,
        [
            (labels(catalog.DECISIONS, region=region, model=model, reason=reason, affinity=affinity), count)
            for (region, model, reason, affinity), count in counted
        ],
    )
    return page.text()


def _counted(page: Page, counters: Counters) -> None:
    _by(page, catalog.REFUSALS, "code", counters.refusals)
    page.many(
        catalog.REPORTS,
        [
            (labels(catalog.REPORTS, region=region, outcome=outcome), count)
            for (region, outcome), count in counters.reports.items()
        ],
    )
    _by(page, catalog.DEPLOYMENTS_DROPPED, "region", counters.deployments_dropped)
    _by(page, catalog.OUTCOMES, "class", counters.outcomes)
    page.histogram(catalog.DECISION_SECONDS, counters.timed, counters.timed_s)
    page.one(catalog.DECISIONS_LOGGED, counters.logged)


def _by(page: Page, metric: Metric, label: str, counts: dict[str, int]) -> None:
    page.many(metric, [(labels(metric, **{label: value}), count) for value, count in counts.items()])


def _replica(page: Page, view: ReplicaView) -> None:
    page.one(catalog.READY, view.table is not None)
    page.one(catalog.STATIC, view.static)
    page.one(catalog.DATABASE_AWAY, view.degraded)
    page.one(catalog.PLAN_AGE, view.plan_age_ms() / 1000)
    page.one(catalog.POLICY_VERSION, view.policy_version)
    page.one(catalog.DEMAND_DROPPED, view.demand_dropped)
