"""What this replica decided, per route, since the last flush.

One row a second leaves for the database. Between flushes a request costs one dictionary look-up and two additions.
While the database is away the counts are dropped each second; the planner could not have used them, and they must not
pile up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.core.observations import DemandSample, DeploymentTokens, RouteDemand
from director.core.request import RouteKey

if TYPE_CHECKING:
    from director.core.decision import Decision
    from director.core.route import CompiledRoute

ROWS_MAX = 20_000
"""Rows held between two flushes; beyond, requests are counted as dropped only."""


class _Row:
    """Requests of one compiled route that went to one place. `region` is None where they were refused."""

    __slots__ = ("presented_region", "region", "requests", "route", "tokens", "version")

    def __init__(self, route: CompiledRoute, region: str | None, version: str, presented_region: str | None) -> None:
        self.route = route
        self.region = region
        self.version = version
        self.presented_region = presented_region
        self.requests = 0
        self.tokens = 0.0


class DemandCounter:
    """Counts on the serving loop only: no lock."""

    def __init__(self) -> None:
        # Keyed by the compiled route itself, which hashes by identity: its key would be hashed field by field.
        self._rows: dict[tuple[CompiledRoute, str | None, str, str | None], _Row] = {}
        self.requests_dropped = 0

    def decided(
        self,
        route: CompiledRoute,
        decision: Decision,
        tokens: float,
        presented_region: str | None = None,
        requests: int = 1,
    ) -> None:
        """Count requests that were sent somewhere. `presented_region`: what a valid affinity token named, if any."""
        target = decision.target
        row = self._rows.get((route, target.region, target.version, presented_region))
        if row is None and (row := self._new_row(route, target.region, target.version, presented_region)) is None:
            self.requests_dropped += requests
            return
        row.requests += requests
        row.tokens += tokens

    def refused(self, route: CompiledRoute, tokens: float, presented_region: str | None = None) -> None:
        """Count one request that no region was left for."""
        row = self._rows.get((route, None, "", presented_region))
        if row is None and (row := self._new_row(route, None, "", presented_region)) is None:
            self.requests_dropped += 1
            return
        row.requests += 1
        row.tokens += tokens

    def _new_row(
        self, route: CompiledRoute, region: str | None, version: str, presented_region: str | None
    ) -> _Row | None:
        if len(self._rows) >= ROWS_MAX:
            return None
        row = self._rows[route, region, version, presented_region] = _Row(route, region, version, presented_region)
        return row

    def take(self, replica: str, at_ms: int, span_ms: int) -> DemandSample | None:
        """Everything counted since the last take, and start from zero; None where nothing was asked."""
        rows, self._rows = self._rows, {}
        if not rows:
            return None
        sums: dict[RouteKey, _Sum] = {}
        for row in rows.values():
            sums.setdefault(row.route.key, _Sum()).add(row)
        routes = tuple(total.demand(key) for key, total in sums.items())
        return DemandSample(replica=replica, at_ms=at_ms, span_ms=span_ms, routes=routes)


class _Sum:
    """One route's rows, added up."""

    def __init__(self) -> None:
        self.requests = 0
        self.new_tokens = 0.0
        self.pinned: dict[tuple[str, str], float] = {}
        self.decided: dict[tuple[str, str], float] = {}

    def add(self, row: _Row) -> None:
        self.requests += row.requests
        if row.region is not None:
            where = (row.region, row.version)
            self.decided[where] = self.decided.get(where, 0.0) + row.tokens
        if row.presented_region is None:
            self.new_tokens += row.tokens
            return
        # A session that was let go names its region only: the version that it had there is not in its token.
        claimed = (row.presented_region, row.version if row.region == row.presented_region else "")
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
