"""What a planner counts, and what its leader observes, for Prometheus."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Literal

from director.core.events import Event
from director.core.state import DeploymentMemory, PlannerState
from director.metrics import catalog
from director.metrics.process import process_text
from director.metrics.text import Page, labels

Result = Literal["published", "following", "no_policy", "database_away", "fenced", "failed"]


class PlannerCounters:
    """Plain counters of one planner process, and the state that it last published."""

    def __init__(self) -> None:
        self.term = 0
        """Of the lease that is held; 0 is none."""
        self.ticks: dict[Result, int] = dict.fromkeys(
            ("published", "following", "no_policy", "database_away", "fenced", "failed"), 0
        )
        self.tick_counts = [0] * (len(catalog.TICK_BOUNDS_S) + 1)
        self.tick_s = 0.0
        self.step_counts = [0] * (len(catalog.TICK_BOUNDS_S) + 1)
        self.step_s = 0.0
        self.plans = 0
        self.events: dict[str, int] = {}
        self.outage_s = 0.0
        self.state: PlannerState | None = None
        """None while another leads: only a leader observes."""
        self._state_at_s = 0.0

    def ticked(self, result: Result, took_s: float, term: int) -> None:
        """One turn of the loop is over. Only a leader's whole ticks are timed."""
        self.ticks[result] += 1
        self.term = term
        if result == "published":
            self.tick_counts[bisect_left(catalog.TICK_BOUNDS_S, took_s)] += 1
            self.tick_s += took_s
        if term == 0:
            self.state = None

    def stepped(self, took_s: float) -> None:
        self.step_counts[bisect_left(catalog.TICK_BOUNDS_S, took_s)] += 1
        self.step_s += took_s

    def published(self, state: PlannerState, events: tuple[Event, ...], with_plan: bool) -> None:
        self.state = state
        self._state_at_s = time.monotonic()
        self.plans += with_plan
        for event in events:
            self.events[event.kind] = self.events.get(event.kind, 0) + 1

    def since_state_s(self) -> float:
        return time.monotonic() - self._state_at_s


DEPLOYMENT_FIGURES: dict[str, Callable[[DeploymentMemory], float | None]] = {
    catalog.UTILISATION.name: lambda one: one.utilisation,
    catalog.ERROR_RATIO.name: lambda one: one.error_ratio,
    catalog.TTFT_P50.name: lambda one: _seconds(one.report.ttft_ms.p50) if one.report.ttft_ms else None,
    catalog.TTFT_P95.name: lambda one: _seconds(one.report.ttft_ms.p95) if one.report.ttft_ms else None,
    catalog.ARRIVALS_CORRECTION.name: lambda one: one.kappa,
}


def exposition(counters: PlannerCounters) -> str:
    """Everything at this moment, in Prometheus's text format. Safe in a thread: states are never changed."""
    page = Page()
    page.one(catalog.LEADER, counters.term > 0)
    page.one(catalog.LEASE_TERM, counters.term)
    page.many(catalog.TICKS, [(labels(catalog.TICKS, result=name), n) for name, n in counters.ticks.items()])
    page.histogram(catalog.TICK_SECONDS, tuple(counters.tick_counts), counters.tick_s)
    page.histogram(catalog.STEP_SECONDS, tuple(counters.step_counts), counters.step_s)
    page.one(catalog.PLANS_PUBLISHED, counters.plans)
    page.many(catalog.EVENTS, [(labels(catalog.EVENTS, kind=kind), n) for kind, n in sorted(counters.events.items())])
    page.one(catalog.OUTAGES, counters.outage_s)
    state, since_s = counters.state, counters.since_state_s()
    if state is not None:
        _observed(page, state, since_s)
    return page.text() + process_text()


def _observed(page: Page, state: PlannerState, since_s: float) -> None:
    page.one(catalog.ROUTES, len(state.routes))
    page.many(
        catalog.REPORT_AGE,
        [
            (labels(catalog.REPORT_AGE, region=one.region), (state.now_ms - one.received_at_ms) / 1000 + since_s)
            for one in state.regions
            if one.received_at_ms > 0
        ],
    )
    keys = [
        labels(catalog.UTILISATION, region=one.region, model=one.model, version=one.version)
        for one in state.deployments
    ]
    for name, told in DEPLOYMENT_FIGURES.items():
        figures = zip(keys, map(told, state.deployments), strict=True)
        page.many(catalog.CATALOG[name], [(key, value) for key, value in figures if value is not None])


def _seconds(length_ms: float | None) -> float | None:
    return None if length_ms is None else length_ms / 1000
