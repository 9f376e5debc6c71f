"""The dashboard's routes, and how their errors look: a page for a browser, a problem document for anything else."""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from litestar.datastructures import State
from litestar.router import Router

from director.http.dashboard import act, fleet, login, policy, timeline, why
from director.http.dashboard.rendering import page, render, static_file, status_of
from director.http.dashboard.session import SentElsewhere, Session, session_of, signed_in
from director.http.problem import TITLES, Problem, ProblemRaised, database_away
from director.http.replies import AnyRequest, problem_reply
from director.http.state import shared
from director.store.database import DatabaseUnavailable


@get("/dashboard/status", guards=[signed_in("read")])
async def status(request: AnyRequest, state: State) -> Response[bytes]:
    """The line at the top of every page."""
    return render(request, "status.html", status=status_of(shared(state)))


def _problem(request: AnyRequest, raised: ProblemRaised) -> Response[bytes]:
    return problem_page(request, raised.problem)


def _database_away(request: AnyRequest, _: DatabaseUnavailable) -> Response[bytes]:
    return problem_page(request, database_away())


def problem_page(request: AnyRequest, problem: Problem) -> Response[bytes]:
    """A problem as a page, with the way back."""
    session = session_of(request)
    if "text/html" not in request.headers.get("accept", "") or not isinstance(session, Session):
        return problem_reply(problem)
    return page(request, "problem.html", session, problem.status, tab="", title=TITLES[problem.code], problem=problem)


def _sent_elsewhere(request: AnyRequest, sent: SentElsewhere) -> Response[Any]:
    """A redirect; a page that asked for a part of itself goes there as a whole."""
    if request.headers.get("hx-request") == "true":
        return Response(b"", status_code=401, headers={"hx-redirect": sent.path, "cache-control": "no-store"})
    return Response(b"", status_code=303, headers={"location": sent.path, "cache-control": "no-store"})


def dashboard_router() -> Router:
    """Everything under `/`, `/dashboard/`, `/login`, `/logout` and `/static/`."""
    return Router(
        path="/",
        route_handlers=[
            fleet.fleet,
            status,
            why.why,
            timeline.timeline,
            timeline.timeline_data,
            act.act,
            act.confirm,
            policy.policy_page,
            policy.policy_change,
            login.login_page,
            login.login,
            login.logout,
            static_file,
        ],
        exception_handlers={
            ProblemRaised: _problem,
            DatabaseUnavailable: _database_away,
            SentElsewhere: _sent_elsewhere,
        },
    )
