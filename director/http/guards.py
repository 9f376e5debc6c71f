"""Litestar guards: a handler names the scope that it needs, and is not entered without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from director.http.decision.question import parse_query
from director.http.grants import SESSION_COOKIE, grant_of, require
from director.http.problem import FieldProblem, Problem, ProblemRaised, malformed
from director.http.reading.fields import FieldRefused
from director.http.state import shared
from director.replica.tokens import Grant

Connection = ASGIConnection[Any, Any, Any, Any]
Guard = Callable[[Connection, BaseRouteHandler], None]


def needs(scope: str) -> Guard:
    """A guard for a scope. `{region}` in it is the path's; a kind alone (`decide`) is held by bound tokens too."""

    def guard(connection: Connection, _: BaseRouteHandler) -> None:
        grant = _grant(connection)
        wanted = scope.format_map(connection.path_params)
        problem = None if ":" not in wanted and grant.allows_some(wanted) else require(grant, wanted)
        if problem is not None:
            raise ProblemRaised(problem)

    return guard


def no_query(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a query string where none is read: `drain?deadline_s=60` must not drain for ever."""
    try:
        told = parse_query(connection.scope["query_string"])
    except FieldRefused as refused:
        raise ProblemRaised(malformed(*refused.problems)) from None
    if told:
        problems = (FieldProblem(name, "no query string here", "an unknown field") for name in told)
        raise ProblemRaised(malformed(*problems))


def who(connection: Connection) -> Grant:
    """The grant of a request that a guard let in."""
    return _grant(connection)


def _session(connection: Connection) -> bytes | None:
    """A browser's session as a header. It reads only: what changes something wants a token of its own."""
    token = connection.cookies.get(SESSION_COOKIE)
    if token is None or connection.scope["method"] not in ("GET", "HEAD"):  # type: ignore[typeddict-item]
        return None
    return f"Bearer {token}".encode("latin-1", "replace")


def _grant(connection: Connection) -> Grant:
    found = connection.headers.getall("authorization", [])
    if len(found) > 1:
        raise ProblemRaised(Problem(401, "token_invalid", "send one Authorization header"))
    header = found[0].encode("latin-1") if found else _session(connection)
    grant = grant_of(header, shared(connection.app.state).view.tokens)
    if isinstance(grant, Problem):
        raise ProblemRaised(grant)
    return grant
