"""Who asks, and what that allows. The Authorization header is the only thing that says so."""

from __future__ import annotations

from director.http.problem import Problem
from director.replica.tokens import Grant, TokenTable

SESSION_COOKIE = "director_session"


def bearer_token(header: bytes) -> bytes | None:
    """The token of `Authorization: Bearer …`; None for another scheme or none at all."""
    scheme, _, token = header.partition(b" ")
    token = token.strip()
    return token if scheme.lower() == b"bearer" and token else None


def grant_of(header: bytes | None, tokens: TokenTable) -> Grant | Problem:
    """The grant that an Authorization header stands for, or the 401 that says why there is none."""
    if header is None:
        return Problem(401, "token_missing", "send Authorization: Bearer TOKEN")
    token = bearer_token(header)
    if token is None:
        return Problem(401, "token_invalid", "expected Authorization: Bearer TOKEN")
    grant = tokens.lookup(token)
    if grant is None:
        return Problem(401, "token_invalid", "the token is unknown, revoked or expired")
    return grant


def require(grant: Grant, scope: str) -> Problem | None:
    """None when the grant holds the scope, else the 403 that names it."""
    if grant.allows(scope):
        return None
    return Problem(403, "forbidden", f"the token {grant.name!r} does not hold the scope {scope}")
