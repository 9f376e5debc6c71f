"""Who looks at the dashboard: a token in a cookie that scripts cannot read, and form values that others cannot know.

No server-side session: any replica can check the token, a restart forgets nobody, and revoking the token ends the
session. The session cookie is SameSite=Strict, and every form that changes something carries a value derived from the
token by HMAC, which nobody without the token can make.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote

from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.handlers import BaseRouteHandler
from msgspec import Struct

from director.http.decision.question import parse_query
from director.http.grants import SESSION_COOKIE, bearer_token, grant_of, require
from director.http.problem import FieldProblem, Problem, ProblemRaised, malformed
from director.http.reading.fields import FieldRefused
from director.http.replies import AnyRequest
from director.http.state import shared
from director.replica.tokens import Grant

Connection = ASGIConnection[Any, Any, Any, Any]

SESSION_S = 12 * 3600
"""A shift; then the token is asked for again."""
_PURPOSE = b"region-director dashboard form"


class SentElsewhere(Exception):
    """Ends a page with a redirect."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Session(Struct, frozen=True):
    """A grant, and the value that this session's forms carry."""

    grant: Grant
    csrf: str

    def allows(self, scope: str) -> bool:
        return self.grant.allows(scope)


def csrf_of(token: str) -> str:
    """The value of a session's forms."""
    return hmac.new(token.encode(), _PURPOSE, sha256).hexdigest()[:40]


def session_of(connection: Connection) -> Session | Problem:
    """The session of an Authorization header or, without one, of the cookie; else the problem that says why not."""
    header = connection.headers.get("authorization")
    if header is None:
        token = connection.cookies.get(SESSION_COOKIE)
        if not token:
            return Problem(401, "token_missing", "log in with a token")
        token = unquote(token)
        raw = f"Bearer {token}".encode("latin-1", "replace")
    else:
        raw = header.encode("latin-1")
        token = (bearer_token(raw) or b"").decode("latin-1")
    grant = grant_of(raw, shared(connection.app.state).view.tokens)
    if isinstance(grant, Problem):
        return grant
    return Session(grant, csrf_of(token))


def signed_in(scope: str) -> Callable[[Connection, BaseRouteHandler], None]:
    """A guard of pages. A browser without a session is sent to the form, and comes back to where it wanted to go."""

    def guard(connection: Connection, _: BaseRouteHandler) -> None:
        session = session_of(connection)
        if isinstance(session, Problem):
            wants_page = "text/html" in connection.headers.get("accept", "")
            asks_part = connection.headers.get("hx-request") == "true"
            if (wants_page or asks_part) and session.status == 401:
                raise SentElsewhere("/login" + _back_to(connection))
            raise ProblemRaised(session)
        problem = require(session.grant, scope)
        if problem is not None:
            raise ProblemRaised(problem)

    return guard


def current(connection: Connection) -> Session:
    """The session of a request that a guard let in."""
    session = session_of(connection)
    assert isinstance(session, Session)
    return session


async def read_form(request: AnyRequest, *, checked: bool = True) -> dict[str, str]:
    """The fields of a form that this session was given. Raises a 403 problem for any other's, 400 for nonsense."""
    try:
        told = parse_query(await request.body())
    except FieldRefused as refused:
        raise ProblemRaised(malformed(*refused.problems)) from None
    if checked and not hmac.compare_digest(told.pop("csrf", "").encode(), current(request).csrf.encode()):
        problem = FieldProblem("csrf", "the value of a form of this session", "another or none")
        raise ProblemRaised(Problem(403, "forbidden", str(problem), errors=(problem,)))
    # Browsers send line ends as CR LF.
    return {name: value.replace("\r\n", "\n") for name, value in told.items()}


def cookie(connection: Connection, name: str, value: str, age_s: int) -> Cookie:
    """A cookie for this host alone that no script reads and no other site sends."""
    secure = connection.url.scheme == "https"
    return Cookie(key=name, value=value, max_age=age_s, path="/", httponly=True, samesite="strict", secure=secure)


def safe_next(path: str) -> str:
    """A path of ours to go to after the login; anything else is the start page."""
    ours = path == "/" or path.startswith(("/?", "/dashboard/"))
    return path if ours and "\\" not in path and path.isascii() and path.isprintable() else "/"


def _back_to(connection: Connection) -> str:
    if connection.headers.get("hx-request") == "true":
        path = connection.headers.get("hx-current-url", "").partition("://")[2]
        path = "/" + path.partition("/")[2]
    else:
        told = connection.url.query
        path = connection.url.path + ("?" + told if told else "")
    path = safe_next(path)
    return "" if path == "/" else "?next=" + quote(path, safe="")
