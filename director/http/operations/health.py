"""`/health/*` for load balancers, `/metrics` for Prometheus."""

from __future__ import annotations

from litestar import Response, get
from litestar.datastructures import State

from director.http.guards import needs
from director.http.problem import Problem
from director.http.replies import json_reply, problem_reply
from director.http.state import shared


@get("/health/live")
async def live() -> Response[bytes]:
    """The process serves requests."""
    return json_reply({"status": "live"})


@get("/health/ready")
async def ready(state: State) -> Response[bytes]:
    """200 while decisions can be made, `degraded` included; 503 without a plan."""
    view = shared(state).view
    report = view.readiness()
    body = {
        "status": report.status,
        "reasons": report.reasons,
        "replica": view.name,
        "plan": None
        if view.table is None
        else {
            "epoch": view.table.plan.epoch,
            "age_ms": view.plan_age_ms(),
            "static": view.static,
            "policy": view.policy_version,
        },
    }
    if report.status == "not_ready":
        detail = "no plan to decide by: " + ", ".join(report.reasons)
        return problem_reply(
            Problem(503, "not_ready", detail, retry_after_s=1, more=body | {"status": 503, "ready": "not_ready"})
        )
    return json_reply(body)


@get("/metrics", guards=[needs("read")])
async def metrics(state: State) -> Response[bytes]:
    """Prometheus text."""
    page = shared(state).metrics
    return Response(await page.render(), media_type=page.content_type)
