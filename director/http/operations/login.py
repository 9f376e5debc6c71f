"""`/login`: how a browser comes to a token. The session is the token itself, in a cookie that scripts cannot read.

No server-side session: any replica can check the token, and revoking it ends the session. The form carries a value that
is also in a cookie of its own, so that no other site can log somebody in. A session reads; it sets nothing.
"""

from __future__ import annotations

import hmac
import secrets

from litestar import Response, get, post
from litestar.datastructures import Cookie, State

from director.http.decision.question import parse_query
from director.http.grants import SESSION_COOKIE, grant_of
from director.http.operations.page import PAGE_HEADERS, render
from director.http.problem import Problem
from director.http.reading.fields import FieldRefused
from director.http.replies import AnyRequest
from director.http.state import shared

FORM_COOKIE = "director_form"
SESSION_S = 12 * 3600
BODY_BYTES_MAX = 4_096


@get("/login")
async def login_page(request: AnyRequest) -> Response[bytes]:
    """The form."""
    return _form(request, "")


@post("/login", status_code=303, request_max_body_size=BODY_BYTES_MAX)
async def login(request: AnyRequest, state: State) -> Response[bytes]:
    """Check the token of the form, and keep it in a cookie."""
    try:
        told = parse_query(await request.body())
    except FieldRefused:
        told = {}
    expected = request.cookies.get(FORM_COOKIE, "")
    if not expected or not hmac.compare_digest(told.get("form", "").encode(), expected.encode()):
        return _form(request, "The form has expired: try again.", 403)
    token = told.get("token", "").strip()
    header = f"Bearer {token}".encode()
    grant = grant_of(header, shared(state).view.tokens)
    if isinstance(grant, Problem):
        return _form(request, "This token is not valid.", 401)
    if not grant.allows("read"):
        return _form(request, "This token does not hold the scope read.", 403)
    cookie = _cookie(request, SESSION_COOKIE, token, SESSION_S)
    return Response(b"", status_code=303, headers={**PAGE_HEADERS, "location": "/"}, cookies=[cookie])


@post("/logout", status_code=303)
async def logout(request: AnyRequest) -> Response[bytes]:
    """Forget the session."""
    cookie = _cookie(request, SESSION_COOKIE, "", 0)
    return Response(b"", status_code=303, headers={**PAGE_HEADERS, "location": "/login"}, cookies=[cookie])


def _form(request: AnyRequest, message: str, status: int = 200) -> Response[bytes]:
    value = secrets.token_urlsafe(24)
    cookie = _cookie(request, FORM_COOKIE, value, 3600)
    reply = render("login.html", status, form=value, message=message)
    reply.cookies.append(cookie)
    return reply


def _cookie(request: AnyRequest, name: str, value: str, age_s: int) -> Cookie:
    secure = request.url.scheme == "https"
    return Cookie(key=name, value=value, max_age=age_s, path="/", httponly=True, samesite="strict", secure=secure)
