"""`/login`, `/logout`. The form carries a value that is also in a cookie of its own: no other site logs somebody in."""

from __future__ import annotations

import hmac
import secrets

from litestar import Response, get, post

from director.http.dashboard.rendering import PAGE_HEADERS, render
from director.http.dashboard.session import (
    SESSION_S,
    SentElsewhere,
    Session,
    cookie,
    read_form,
    safe_next,
    session_of,
)
from director.http.decision.question import parse_query
from director.http.grants import SESSION_COOKIE, grant_of
from director.http.problem import Problem, ProblemRaised
from director.http.reading.fields import FieldRefused
from director.http.replies import AnyRequest
from director.http.state import shared

FORM_COOKIE = "director_form"
BODY_BYTES_MAX = 8_192


@get("/login")
async def login_page(request: AnyRequest) -> Response[bytes]:
    """The form; or on to the page for who is logged in.

    A link in a chat opens without our cookies, since it comes from another site. One step from our own page brings
    them along: then nobody who has a session is asked for a token.
    """
    try:
        told = parse_query(request.scope["query_string"])
    except FieldRefused:
        told = {}
    target = safe_next(told.get("next", "/"))
    if isinstance(session_of(request), Session) and "next" in told:
        raise SentElsewhere(target)
    if "again" not in told and request.headers.get("sec-fetch-site") == "cross-site":
        return render(request, "step.html", target=target)
    return _form(request, "", target)


@post("/login", status_code=303, request_max_body_size=BODY_BYTES_MAX)
async def login(request: AnyRequest) -> Response[bytes]:
    """Check the token of the form, and keep it in a cookie."""
    try:
        told = await read_form(request, checked=False)
    except ProblemRaised:
        told = {}
    target = safe_next(told.get("next", "/"))
    expected = request.cookies.get(FORM_COOKIE, "")
    if not expected or not hmac.compare_digest(told.get("form", "").encode(), expected.encode()):
        return _form(request, "The form has expired: try again.", target, 403)
    token = told.get("token", "").strip()
    grant = grant_of(f"Bearer {token}".encode(), shared(request.app.state).view.tokens)
    if isinstance(grant, Problem):
        return _form(request, "This token is not valid.", target, 401)
    if not grant.allows("read"):
        return _form(request, "This token does not hold the scope read.", target, 403)
    kept = [cookie(request, SESSION_COOKIE, token, SESSION_S), cookie(request, FORM_COOKIE, "", 0)]
    return Response(b"", status_code=303, headers={**PAGE_HEADERS, "location": target}, cookies=kept)


@post("/logout", status_code=303)
async def logout(request: AnyRequest) -> Response[bytes]:
    """Forget the session, unless another site asks for it."""
    if request.headers.get("sec-fetch-site") == "cross-site":
        raise SentElsewhere("/")
    forgotten = [cookie(request, SESSION_COOKIE, "", 0)]
    return Response(b"", status_code=303, headers={**PAGE_HEADERS, "location": "/login"}, cookies=forgotten)


def _form(request: AnyRequest, message: str, target: str, status: int = 200) -> Response[bytes]:
    value = secrets.token_urlsafe(24)
    reply = render(request, "login.html", status, form=value, message=message, target=target)
    reply.cookies.append(cookie(request, FORM_COOKIE, value, 3600))
    return reply
