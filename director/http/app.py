"""The Litestar application: everything on the port but the fast way of `/select-region`, which it can answer too."""

from __future__ import annotations

import structlog
from litestar import Litestar, Response, asgi
from litestar.datastructures import State
from litestar.exceptions import HTTPException, NotFoundException
from litestar.types import Receive, Scope, Send

from director.http.dashboard.pages import dashboard_router
from director.http.dashboard.state import DashboardState
from director.http.decision.answer import Answer, problem_answer
from director.http.decision.endpoint import decide_http, is_decision_path, too_large
from director.http.decision.question import BODY_BYTES_MAX
from director.http.ingest.handler import put_report
from director.http.openapi import openapi
from director.http.operations import (
    events,
    explain,
    fallbacks,
    health,
    operators,
    outcomes,
    plans,
    regions,
)
from director.http.policies import handlers as policies
from director.http.problem import FAILED, Problem, ProblemRaised, database_away
from director.http.replies import AnyRequest, problem_reply
from director.http.state import HttpState
from director.replica.view import ReplicaView
from director.store.database import DatabaseUnavailable

CODES = {400: "malformed", 404: "not_found", 405: "method_not_allowed", 413: "too_large"}
CLIENT_LEFT = "client disconnected prematurely"
"""What Litestar says, as an error of the server, when a connection ends before the request's body does."""

log = structlog.get_logger()


def create_app(view: ReplicaView, *, decision_log_ratio: float = 0.0) -> Litestar:
    """An application over one replica's view. `app.state.http` is what the fast protocol needs.

    `decision_log_ratio`: the part of all decisions that is logged.
    """
    http = HttpState(view, decision_log_ratio)
    return Litestar(
        route_handlers=[
            select_region,
            put_report,
            openapi,
            fallbacks.fallbacks,
            explain.explain_request,
            regions.list_regions,
            plans.current_plan,
            plans.past_plans,
            events.list_events,
            operators.drain,
            operators.undrain,
            operators.down,
            operators.up,
            operators.cap,
            outcomes.post_outcomes,
            policies.check_policy,
            policies.running_policy,
            policies.put_policy,
            policies.rollback,
            health.live,
            health.ready,
            health.metrics,
            dashboard_router(),
        ],
        state=State({"http": http, "decision": http.decision, "dashboard": DashboardState(http)}),
        exception_handlers={
            ProblemRaised: _problem_raised,
            DatabaseUnavailable: _database_unavailable,
            HTTPException: _http_exception,
            Exception: _failed,
        },
        # Its own document pages load scripts from elsewhere; `openapi` serves the document alone.
        openapi_config=None,
        logging_config=None,
        # The same for every handler; those that take more say so themselves.
        request_max_body_size=BODY_BYTES_MAX,
    )


@asgi("/select-region", is_mount=True, copy_scope=False)
async def select_region(scope: Scope, receive: Receive, send: Send) -> None:
    """The decision endpoint over plain ASGI: the same function, for servers and moments without the fast protocol."""
    http: HttpState = scope["litestar_app"].state.http
    if not is_decision_path(scope["raw_path"]):
        raise NotFoundException  # a mount takes `/select-regions` too
    method: bytes = scope["method"].encode()  # type: ignore[typeddict-item]  # no WebSocket is served
    body = await _body(receive)
    if body is None:
        answer = problem_answer(too_large(), "decision")
    else:
        query: bytes = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        headers = list(scope["headers"])
        answer = decide_http(method, target, headers, body, http.decision)
        if http.decision_log is not None:
            http.decision_log.take(target, headers, body, answer)
    # The rest of a body that is too large is not waited for.
    await _send(answer, send, with_body=method != b"HEAD", keep_alive=body is not None)


async def _body(receive: Receive) -> bytes | None:
    """The whole body, or None as soon as it is too large."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        chunks.append(message["body"])
        size += len(chunks[-1])
        if size > BODY_BYTES_MAX:
            return None
        if not message["more_body"]:
            return b"".join(chunks)


async def _send(answer: Answer, send: Send, *, with_body: bool, keep_alive: bool) -> None:
    headers = answer.headers()
    if not keep_alive:
        headers.append((b"connection", b"close"))
    if answer.status != 204:
        headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body if with_body else b"", "more_body": False})


def _problem_raised(_: AnyRequest, raised: ProblemRaised) -> Response[bytes]:
    return problem_reply(raised.problem)


def _database_unavailable(request: AnyRequest, error: DatabaseUnavailable) -> Response[bytes]:
    log.warning("database_unavailable", path=request.url.path, error=str(error))
    return problem_reply(database_away())


def _http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Litestar's own refusals: no such path, a wrong method, a body that is too large."""
    if error.detail == CLIENT_LEFT:
        log.info("client_left", method=request.method, path=request.url.path)
        return problem_reply(Problem(400, "malformed", "the connection ended before the body did"))
    if error.status_code not in CODES:
        return _failed(request, error)
    reply = problem_reply(
        Problem(error.status_code, CODES[error.status_code], f"{request.method} {request.url.path}: {error.detail}")
    )
    for name, value in (error.headers or {}).items():
        reply.headers[name] = value
    return reply


def _failed(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Our fault: the log has the trace, the client has none of it."""
    log.error("request_failed", method=request.method, path=request.url.path, exc_info=error)
    return problem_reply(FAILED)
