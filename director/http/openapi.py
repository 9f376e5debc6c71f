"""`GET /schema/openapi.json`: one document for both ways of the port.

The operations are a table, because the decision endpoint is none of Litestar's handlers; a test holds the table to the
routes. The schemas come from the types that are really read and written.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec
from litestar import Response, get
from msgspec import Struct, field

from director.core.explain import Explanation
from director.core.plan import Plan
from director.core.report import Report
from director.http.decision.question import Question
from director.http.guards import needs
from director.http.problem import FieldProblem

REF = "#/components/schemas/{name}"


class Operation(Struct, frozen=True):
    method: str
    path: str
    scope: str | None
    summary: str
    query: tuple[str, ...] = ()
    body: str | None = None
    """The name of a schema."""
    answers: dict[int, str] = field(default_factory=lambda: {200: "Object"})
    """Status → the name of a schema; problems are added."""
    problems: tuple[int, ...] = ()


QUESTION_QUERY = tuple(Question.__struct_fields__)
REGION_ACT = (400, 401, 403, 404, 503)

OPERATIONS = (
    Operation(
        "get", "/select-region", "decide", "Which region should this request enter?",
        query=(*QUESTION_QUERY, "mode"), answers={200: "Decision", 204: ""}, problems=(400, 401, 403, 404, 503),
    ),
    Operation(
        "post", "/select-region", "decide", "The same, asked in JSON", query=("mode",), body="Question",
        answers={200: "Decision", 204: ""}, problems=(400, 401, 403, 404, 413, 503),
    ),
    Operation("get", "/fallbacks", "decide", "Permitted regions in order, for every tenant and model",
              query=("client_zone",), problems=(400, 401, 403, 503)),
    Operation("post", "/explain", "read", "Every candidate of a request with its rejection or its nearness, and why",
              body="PastQuestion", answers={200: "Explanation"}, problems=(400, 401, 403, 404, 503)),
    Operation("put", "/regions/{region}/report", "report:{region}", "What a region says of its deployments",
              body="Report", answers={200: "Receipt", 202: "Receipt"}, problems=(401, 403, 404, 409, 413, 422, 503)),
    Operation("post", "/outcomes", "decide", "How requests ended, in batches that count once", body="Outcomes",
              answers={200: "Object", 202: "Object"}, problems=(400, 401, 403, 413, 503)),
    Operation("get", "/regions", "read", "Each region as the plan has it", problems=(401, 403, 503)),
    Operation("get", "/plan", "read", "The plan in use", answers={200: "Plan"}, problems=(401, 403, 503)),
    Operation("get", "/plans", "read", "Plans after an epoch", query=("since", "limit"), answers={200: "List"},
              problems=(400, 401, 403, 503)),
    Operation("get", "/events", "read", "Every change of state, with who, when and why",
              query=("since", "until", "since_id", "region", "kind", "limit"), answers={200: "List"},
              problems=(400, 401, 403, 503)),
    Operation("post", "/regions/{region}/drain", "operate", "Send new sessions elsewhere", body="Drain",
              problems=REGION_ACT),
    Operation("post", "/regions/{region}/undrain", "operate", "End a drain", body="Reason", problems=REGION_ACT),
    Operation("post", "/regions/{region}/down", "operate", "Let nothing in", body="Reason", problems=REGION_ACT),
    Operation("post", "/regions/{region}/up", "operate", "End a down", body="Reason", problems=REGION_ACT),
    Operation("post", "/regions/{region}/cap", "operate", "Bound a region's share of every route", body="Cap",
              problems=REGION_ACT),
    Operation("post", "/policy/check", "read", "Validate a policy, and say what it would move", body="PolicyFiles",
              problems=(400, 401, 403, 413, 422)),
    Operation("get", "/policy", "read", "The newest version with its files, and those before it",
              problems=(401, 403, 503)),
    Operation("put", "/policy", "operate", "Say what a policy would move; with apply=true, run it",
              query=("apply", "force", "reason"), body="PolicyFiles", problems=(400, 401, 403, 409, 413, 422, 503)),
    Operation("post", "/policy/rollback", "operate", "Make an earlier version the newest again", body="Rollback",
              problems=(400, 401, 403, 404, 409, 503)),
    Operation("get", "/health/live", None, "The process serves"),
    Operation("get", "/health/ready", None, "Decisions can be made", problems=(503,)),
    Operation("get", "/metrics", "read", "Prometheus text", answers={200: ""}, problems=(401, 403)),
    Operation("get", "/schema/openapi.json", "read", "This document", problems=(401, 403)),
    Operation("get", "/", "read", "The fleet as a page", answers={200: ""}, problems=(401, 403)),
    Operation("get", "/login", None, "A form for a browser", answers={200: ""}),
    Operation("post", "/login", None, "Keep a token in a cookie", answers={303: ""}),
    Operation("post", "/logout", None, "Forget it", answers={303: ""}),
)  # fmt: skip

_NULLABLE_TEXT = {"type": ["string", "null"]}


@get("/schema/openapi.json", guards=[needs("read")])
async def openapi() -> Response[bytes]:
    """OpenAPI 3.1."""
    return Response(document(), media_type="application/json")


@cache
def document() -> bytes:
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Region Director", "version": version("region-director")},
            "paths": paths,
            "components": {
                "schemas": _schemas(),
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _operation(operation: Operation) -> dict[str, Any]:
    out: dict[str, Any] = {"summary": operation.summary, "operationId": _operation_id(operation)}
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in operation.path.split("/")
        if part.startswith("{")
    ]
    parameters += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in operation.query]
    if parameters:
        out["parameters"] = parameters
    if operation.scope is not None:
        out["security"] = [{"token": []}]
        out["description"] = f"Scope: `{operation.scope}`."
    if operation.body is not None:
        out["requestBody"] = {"content": _content("application/json", operation.body)}
    answers: dict[str, Any] = {}
    for status, name in operation.answers.items():
        answers[str(status)] = {"description": "Answer"}
        if name:
            answers[str(status)]["content"] = _content("application/json", name)
    for status in operation.problems:
        answers[str(status)] = {"description": "Problem", "content": _content("application/problem+json", "Problem")}
    out["responses"] = answers
    return out


def _operation_id(operation: Operation) -> str:
    words = operation.path.replace("{", "").replace("}", "").replace(".", "_").replace("-", "_").strip("/").split("/")
    return "_".join([operation.method, *filter(None, words)])


def _content(media_type: str, name: str) -> dict[str, Any]:
    return {media_type: {"schema": {"$ref": REF.format(name=name)}}}


def _schemas() -> dict[str, Any]:
    _, found = msgspec.json.schema_components((Question, Report, Plan, Explanation, FieldProblem), ref_template=REF)
    question = found["Question"]
    at = {"type": ["string", "null"], "format": "date-time"}
    past = {**question, "title": "PastQuestion", "properties": {**question["properties"], "at": at}}
    return {**found, "PastQuestion": past, **_WRITTEN_BY_HAND}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT = {"type": "string"}
_NUMBER = {"type": "number", "minimum": 0}
_REGION_ENDPOINT = _object({"region": _TEXT, "endpoint": _TEXT}, "region", "endpoint")
_WRITTEN_BY_HAND: dict[str, Any] = {
    "Object": {"type": "object"},
    "List": {"type": "array", "items": {"type": "object"}},
    "Reason": _object({"reason": _NULLABLE_TEXT}),
    "PolicyFiles": _object({"files": {"type": "object", "additionalProperties": _TEXT}}, "files"),
    "Rollback": _object(
        {"version": {"type": ["integer", "null"]}, "reason": _NULLABLE_TEXT, "force": {"type": "boolean"}}
    ),
    "Drain": _object({"deadline_s": {"type": ["number", "null"], "exclusiveMinimum": 0}, "reason": _NULLABLE_TEXT}),
    "Cap": _object(
        {"share": {"type": ["number", "null"], "minimum": 0, "maximum": 1}, "reason": _NULLABLE_TEXT}, "share"
    ),
    "Outcomes": _object(
        {
            "reporter": _TEXT,
            "batch": _TEXT,
            "outcomes": {
                "type": "array",
                "items": _object(
                    {
                        "region": _TEXT,
                        "model": _TEXT,
                        "version": _TEXT,
                        "class": {"enum": ["ok", "server", "timeout", "connect", "throttled", "client"]},
                        "count": {"type": "integer", "minimum": 1},
                        "ttft_ms": _NUMBER,
                        "retry_after_s": _NUMBER,
                    },
                    "region", "model", "version", "class", "count",
                ),
            },
        },
        "reporter", "batch", "outcomes",
    ),
    "Receipt": _object(
        {
            "status": {"enum": ["accepted", "duplicate"]},
            "deployments": {"type": "integer"},
            "warnings": {"type": "array", "items": _TEXT},
            "dropped": {"type": "array", "items": {"type": "object"}},
            "dropped_count": {"type": "integer"},
            "ignored_fields": {"type": "array", "items": _TEXT},
        },
        "status", "deployments", "warnings", "dropped",
    ),
    "Decision": _object(
        {
            "decision_id": _TEXT,
            "region": _TEXT,
            "endpoint": _TEXT,
            "model": _TEXT,
            "version": _TEXT,
            "reason": {"enum": ["home", "overflow", "affinity", "overloaded"]},
            "fallbacks": {"type": "array", "items": _REGION_ENDPOINT},
            "affinity": _object({"token": _TEXT, "expires_in_s": _NUMBER}, "token", "expires_in_s"),
            "shares": {"type": "object", "additionalProperties": _NUMBER},
            "reuse_s": _NUMBER,
            "plan": _object(
                {
                    "epoch": {"type": "integer"},
                    "age_ms": {"type": "integer"},
                    "static": {"type": "boolean"},
                    "policy": {"type": "integer"},
                },
                "epoch", "age_ms", "static", "policy",
            ),
        },
        "decision_id", "region", "endpoint", "model", "version", "reason", "fallbacks", "affinity",
        "shares", "reuse_s", "plan",
    ),
    "Problem": _object(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "code": _TEXT,
            "detail": _TEXT,
            "errors": {"type": "array", "items": {"$ref": REF.format(name="FieldProblem")}},
            "retry_after_s": {"type": "integer"},
            "rejected": {"type": "array", "items": {"type": "object"}},
        },
        "type", "title", "status", "code", "detail",
    ),
}  # fmt: skip
