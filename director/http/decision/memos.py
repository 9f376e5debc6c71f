"""What the endpoint remembers between requests: who a header stands for, and which route a question belongs to.

Both are bounded, and neither outlives what it was derived from: a grant is looked up again for every request, so that
revoking or expiring a token acts at once; routes belong to one table and are forgotten with it.
"""

from __future__ import annotations

from typing import NamedTuple

from director.core.request import Request
from director.core.route import CompiledRoute
from director.core.table import RoutingTable
from director.http.grants import bearer_token, grant_of
from director.http.problem import Problem, ProblemRaised
from director.replica.tokens import Grant, TokenTable

RIGHTS_MAX = 1_000
ROUTES_MAX = 10_000


class Rights(NamedTuple):
    """A grant's `decide` scopes, taken apart."""

    grant: Grant
    tenants: frozenset[str] | None
    """None: every tenant."""


class RightsMemo:
    """Authorization header → rights."""

    __slots__ = ("_by_header",)

    def __init__(self) -> None:
        self._by_header: dict[bytes, tuple[bytes, Rights]] = {}

    def of(self, header: bytes | None, tokens: TokenTable) -> Rights:
        """Raises a 401 or 403 problem."""
        known = self._by_header.get(header) if header is not None else None
        if known is not None:
            token, rights = known
            if tokens.lookup(token) is rights.grant:
                return rights
        grant = grant_of(header, tokens)
        if isinstance(grant, Problem):
            raise ProblemRaised(grant)
        if not grant.allows_some("decide"):
            detail = f"the token {grant.name!r} does not hold the scope decide"
            raise ProblemRaised(Problem(403, "forbidden", detail))
        rights = Rights(grant, _tenants(grant))
        token_now = bearer_token(header) if header is not None else None
        if header is not None and token_now is not None:
            if len(self._by_header) >= RIGHTS_MAX:
                self._by_header.clear()
            self._by_header[header] = (token_now, rights)
        return rights


def _tenants(grant: Grant) -> frozenset[str] | None:
    if "decide" in grant.scopes:
        return None
    return frozenset(scope.removeprefix("decide:") for scope in grant.scopes if scope.startswith("decide:"))


class KnownRoute(NamedTuple):
    route: CompiledRoute
    tokens_mean: float
    """Tokens of a request that gives no estimate."""


RouteNames = tuple[str, str, str | None, str | None, tuple[str, ...] | None, str]
"""Tenant, model, version, adapter, residency, client zone, as they were asked."""


class RouteMemo:
    """A question's names → its compiled route, for one table."""

    __slots__ = ("_routes", "_table")

    def __init__(self) -> None:
        self._table: RoutingTable | None = None
        self._routes: dict[RouteNames, KnownRoute] = {}

    def get(self, table: RoutingTable, names: RouteNames) -> KnownRoute | None:
        if table is not self._table:
            self._table = table
            self._routes = {}
        return self._routes.get(names)

    def learn(self, table: RoutingTable, names: RouteNames, request: Request) -> KnownRoute:
        """Remember the route of a request whose tenant and model exist."""
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        route = table.route(table.route_key(request))
        known = KnownRoute(route, table.policy.models[request.model].estimated_tokens)
        self._routes[names] = known
        return known
