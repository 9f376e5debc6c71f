"""Small answers that every handler makes, and the request bodies and query strings that it reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from litestar import Request, Response

from director.core.policy import Policy
from director.http.decision.question import parse_query
from director.http.problem import FieldProblem, Problem, ProblemRaised, malformed
from director.http.reading.fields import Check, FieldRefused, Notes, near_miss, record
from director.http.reading.strict_json import NotJson, read_json

AnyRequest = Request[Any, Any, Any]


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json", headers=headers)


def problem_reply(problem: Problem) -> Response[bytes]:
    headers = {name.decode(): value.decode() for name, value in problem.headers() if name != b"content-type"}
    return Response(problem.body(), status_code=problem.status, media_type="application/problem+json", headers=headers)


async def read_body(request: AnyRequest, fields: dict[str, Check], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A JSON object with exactly these fields; nothing at all counts as an empty one. Raises a 400 problem."""
    raw = await request.body()
    try:
        found: dict[str, Any] = record(dict, fields, required)(read_json(raw) if raw else {}, "", Notes())
    except NotJson as error:
        raise ProblemRaised(malformed(error.problem)) from None
    except FieldRefused as refused:
        raise ProblemRaised(malformed(*refused.problems)) from None
    return found


def read_query(
    request: AnyRequest, fields: dict[str, Check], *, numeric: tuple[str, ...] = (), flags: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The query string, each name once, each known. Raises a 400 problem.

    `numeric` names are read as integers, `flags` as true or false.
    """
    try:
        told: dict[str, Any] = {
            name: value for name, value in parse_query(request.scope["query_string"]).items() if value
        }
        for name in numeric:
            if name in told and told[name].isascii() and told[name].isdigit() and len(told[name]) <= 18:
                told[name] = int(told[name])
        for name in flags:
            if told.get(name) in ("true", "false"):
                told[name] = told[name] == "true"
        found: dict[str, Any] = record(dict, fields)(told, "", Notes())
    except FieldRefused as refused:
        raise ProblemRaised(malformed(*refused.problems)) from None
    return found


def check_region(region: str, policy: Policy) -> None:
    """Raises a 404 problem for a region that the policy does not know, with the nearest name."""
    if region in policy.regions:
        return
    suggestion = near_miss(region, policy.regions)
    problem = FieldProblem("region", "a region of the policy", repr(region), suggestion)
    raise ProblemRaised(Problem(404, "region_unknown", str(problem), errors=(problem,)))


def time_text(at_ms: int) -> str:
    """RFC 3339, UTC, milliseconds."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
