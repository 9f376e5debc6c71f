"""What this replica decided, per route, since the last flush.

One row a second leaves for the database. Between flushes a request costs one dictionary look-up and two additions:
decisions are cached by the routing table and hash by identity, so a decision is its own key. While the database is
away the counts are dropped each second; the planner could not have used them, and they must not pile up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.core.observations import DemandSample, DeploymentTokens, RouteDemand
from director.core.request import RouteKey

if TYPE_CHECKING:
    from director.core.decision import Decision
    from director.core.route import CompiledRoute

ROWS_MAX = 20_000
"""Distinct (route, decision) pairs held between two flushes; beyond, requests are counted as dropped only."""


class _Row:
    __slots__ = ("decision", "presented_region", "requests", "route", "tokens")

    def __init__(self, route: CompiledRoute, decision: Decision | None, presented_region: str | None) -> None:
        self.route = route
        self.decision = decision
        self.presented_region = presented_region
        self.requests = 0
        self.tokens = 0.0


class DemandCounter:
    """Counts on the serving loop only: no lock."""

    def __init__(self) -> None:
        self._new: dict[Decision, _Row] = {}
        self._pinned: dict[tuple[Decision, str], _Row] = {}
        self._refused: dict[tuple[RouteKey, str | None], _Row] = {}
        self.requests_dropped = 0

    def decided(self, route: CompiledRoute, decision: Decision, requests: int, tokens: float) -> None:
        """Count new demand: requests that no affinity token bound to a region."""
        row = self._new.get(decision)
        if row is None:
            if self._full(requests):
                return
            row = self._new[decision] = _Row(route, decision, None)
        row.requests += requests
        row.tokens += tokens

    def pinned(self, route: CompiledRoute, decision: Decision, presented_region: str, tokens: float) -> None:
        """Count one request whose valid affinity token named `presented_region`, wherever it was sent."""
        row = self._pinned.get((decision, presented_region))
        if row is None:
            if self._full(1):
                return
            row = self._pinned[decision, presented_region] = _Row(route, decision, presented_region)
        row.requests += 1
        row.tokens += tokens

    def refused(self, route: CompiledRoute, tokens: float, presented_region: str | None) -> None:
        """Count one request that no region was left for."""
        key = (route.key, presented_region)
        row = self._refused.get(key)
        if row is None:
            if self._full(1):
                return
            row = self._refused[key] = _Row(route, None, presented_region)
        row.requests += 1
        row.tokens += tokens

    def take(self, replica: str, at_ms: int, span_ms: int) -> DemandSample | None:
        """Everything counted since the last take, and start from zero; None where nothing was asked."""
        rows = [*self._new.values(), *self._pinned.values(), *self._refused.values()]
        self._new, self._pinned, self._refused = {}, {}, {}
        if not rows:
            return None
        sums: dict[RouteKey, _Sum] = {}
        for row in rows:
            sums.setdefault(row.route.key, _Sum()).add(row)
        routes = tuple(total.demand(key) for key, total in sums.items())
        return DemandSample(replica=replica, at_ms=at_ms, span_ms=span_ms, routes=routes)

    def _full(self, requests: int) -> bool:
        if len(self._new) + len(self._pinned) + len(self._refused) < ROWS_MAX:
            return False
        self.requests_dropped += requests
        return True


class _Sum:
    """One route's rows, added up."""

    def __init__(self) -> None:
        self.requests = 0
        self.new_tokens = 0.0
        self.pinned: dict[tuple[str, str], float] = {}
        self.decided: dict[tuple[str, str], float] = {}

    def add(self, row: _Row) -> None:
        self.requests += row.requests
        target = row.decision.target if row.decision is not None else None
        if target is not None:
            where = (target.region, target.version)
            self.decided[where] = self.decided.get(where, 0.0) + row.tokens
        if row.presented_region is None:
            self.new_tokens += row.tokens
            return
        stayed = target is not None and target.region == row.presented_region
        # A session that was let go names its region only: the version that it had there is not in its token.
        claimed = (row.presented_region, target.version if target is not None and stayed else "")
        self.pinned[claimed] = self.pinned.get(claimed, 0.0) + row.tokens

    def demand(self, route: RouteKey) -> RouteDemand:
        return RouteDemand(
            route=route,
            requests=self.requests,
            new_tokens=self.new_tokens,
            pinned=tuple(
                DeploymentTokens(region, version, tokens) for (region, version), tokens in self.pinned.items()
            ),
            decided=tuple(
                DeploymentTokens(region, version, tokens) for (region, version), tokens in self.decided.items()
            ),
        )
