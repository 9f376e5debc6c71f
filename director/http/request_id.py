"""One id from a request's header to its log lines, its answer and the events that it causes.

`X-Request-Id` is taken as it comes when it is short and printable, else made. It is bound to the context of the
request: every log line of it carries `request_id`, and so do its events (`director.store.events`). The decision
endpoint is left alone: its answers carry a `decision_id`, and its log (`director.http.decision.log`) both.
"""

from __future__ import annotations

import re
from secrets import token_hex

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from director.http.decision.endpoint import is_decision_path

HEADER = b"x-request-id"
_USABLE = re.compile(rb"[!-~]{1,128}")


def told_id(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The id that a request came with; None where there is none that can be used, or more than one."""
    told = [value for name, value in headers if name == HEADER]
    return told[0].decode() if len(told) == 1 and _USABLE.fullmatch(told[0]) else None


def with_request_id(app: ASGIApp) -> ASGIApp:
    """The application with an id bound around each request."""

    async def bound(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or is_decision_path(scope["raw_path"]):
            await app(scope, receive, send)
            return
        request_id = told_id(list(scope["headers"])) or token_hex(16)

        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (HEADER, request_id.encode())]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await app(scope, receive, send_with)

    return bound
