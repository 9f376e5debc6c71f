"""`GET /dashboard/why`: choose a request, and see every candidate with its rejection or its terms, and the pick.

The request is the address: what one person sees, another sees by the same link. It is the very explanation of
`POST /explain`, of this moment or of a past one.
"""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from litestar.datastructures import State

from director.core.explain import CandidateView, Explanation
from director.core.policy import DEFAULT_ZONE, Policy
from director.http.dashboard.rendering import page
from director.http.dashboard.session import current, signed_in
from director.http.decision.question import FIELDS, LISTS, Question, parse_query
from director.http.operations.explain import explain_question
from director.http.problem import FieldProblem, Problem, ProblemRaised
from director.http.reading.fields import FieldRefused, Notes, record, timestamp
from director.http.replies import AnyRequest
from director.http.state import shared

ASKED = ("tenant", "model", "version", "adapter", "client_zone", "client_ip", "session", "residency", "exclude")
_read = record(dict, {name: FIELDS[name] for name in (*ASKED, "affinity")} | {"at": timestamp})


@get("/dashboard/why", guards=[signed_in("read")])
async def why(request: AnyRequest, state: State) -> Response[bytes]:
    """The form, and the explanation once there is a model."""
    http = shared(state)
    told: dict[str, str] = {}
    problems: tuple[FieldProblem, ...] = ()
    problem: Problem | None = None
    found: Explanation | None = None
    try:
        told = {name: value.strip() for name, value in parse_query(request.scope["query_string"]).items()}
        if told.get("model"):
            found = await _explained(request, told)
    except FieldRefused as refused:
        problems = refused.problems
    except ProblemRaised as raised:
        problem = raised.problem
    table = http.view.table
    policy = Policy((), {}, {}, {}, {}) if table is None else table.policy
    candidates = () if found is None else ordered(found)
    return page(
        request,
        "why.html",
        current(request),
        tab="why",
        title="Why",
        told=told,
        tenants=sorted(policy.tenants),
        models=sorted(policy.models),
        zones=[DEFAULT_ZONE, *sorted(policy.client_zones)],
        default_tenant=policy.default_tenant,
        problems=problems,
        problem=problem,
        found=found,
        candidates=candidates,
        near_max=max((one.nearness.near_ms for one in candidates if one.nearness is not None), default=0.0),
        staged=any(one.shares is not None and (one.shares.relief or one.shares.overload) for one in candidates),
    )


async def _explained(request: AnyRequest, told: dict[str, str]) -> Explanation:
    asked: dict[str, Any] = {name: value for name, value in told.items() if value}
    for name in LISTS:
        if name in asked:
            asked[name] = [one.strip() for one in asked[name].split(",") if one.strip()]
    fields: dict[str, Any] = _read(asked, "", Notes())
    at = fields.pop("at", None)
    return await explain_question(shared(request.app.state), Question(**fields), at)


def ordered(found: Explanation) -> tuple[CandidateView, ...]:
    """The pick first, then by share, then by nearness; those dropped last, those that may come back before the rest."""

    def key(one: CandidateView) -> tuple[Any, ...]:
        picked = (one.region, one.version) == (found.region, found.version)
        rejected = 0 if one.rejection is None else 1 + one.rejection.permanent
        near = one.nearness.near_ms if one.nearness is not None else 1e9
        return (not picked, rejected, -one.share, near, one.region)

    return tuple(sorted(found.candidates, key=key))
