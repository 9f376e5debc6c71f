"""What operators set on a region: drain, down, cap, and their ends. It wins over observation until it ends."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, post
from litestar.datastructures import State

from director.core.observations import OperatorSetting
from director.http.guards import needs, no_query, who
from director.http.operations.plans import table_in_use
from director.http.problem import FieldProblem, ProblemRaised, malformed
from director.http.reading.fields import number, text
from director.http.replies import AnyRequest, check_region, json_reply, read_body, time_text
from director.http.state import HttpState, shared
from director.store import operators
from director.store.database import Database
from director.store.operators import Kind

REASON_CHARS_MAX = 500
DEADLINE_S_MAX = 366 * 86_400.0
NO_REASON = "no reason given"

_reason = text(REASON_CHARS_MAX)


@post("/regions/{region:str}/drain", guards=[needs("operate"), no_query], status_code=200)
async def drain(region: str, request: AnyRequest, state: State) -> Response[bytes]:
    """New sessions go elsewhere at once; those that hold a token may come back until the deadline."""
    fields = {"deadline_s": number(above=0, at_most=DEADLINE_S_MAX), "reason": _reason}
    return await _set(region, "drain", request, state, fields)


@post("/regions/{region:str}/undrain", guards=[needs("operate"), no_query], status_code=200)
async def undrain(region: str, request: AnyRequest, state: State) -> Response[bytes]:
    """End a drain."""
    return await _clear(region, "drain", request, state)


@post("/regions/{region:str}/down", guards=[needs("operate"), no_query], status_code=200)
async def down(region: str, request: AnyRequest, state: State) -> Response[bytes]:
    """Take a region out: nothing enters, sessions included."""
    return await _set(region, "down", request, state, {"reason": _reason})


@post("/regions/{region:str}/up", guards=[needs("operate"), no_query], status_code=200)
async def up(region: str, request: AnyRequest, state: State) -> Response[bytes]:
    """End a `down`."""
    return await _clear(region, "down", request, state)


@post("/regions/{region:str}/cap", guards=[needs("operate"), no_query], status_code=200)
async def cap(region: str, request: AnyRequest, state: State) -> Response[bytes]:
    """Bound a region's share of every route; a share of null ends the cap."""
    http, database = _checked(region, state)
    body = await read_body(request, {"share": number(at_most=1), "reason": _reason})
    if "share" not in body and b'"share"' not in await request.body():
        raise ProblemRaised(malformed(FieldProblem("share", "a ratio, 0 to 1, or null to end the cap", "nothing")))
    if "share" not in body:
        return await _cleared(http, database, region, "cap", request, body)
    setting = await operators.put(
        database, region, "cap", who=who(request).name, reason=body.get("reason", NO_REASON), share=body["share"]
    )
    return json_reply({"region": region, "changed": True, "setting": _shown(setting)})


async def _set(region: str, kind: Kind, request: AnyRequest, state: State, fields: dict[str, Any]) -> Response[bytes]:
    _, database = _checked(region, state)
    body = await read_body(request, fields)
    setting = await operators.put(
        database,
        region,
        kind,
        who=who(request).name,
        reason=body.get("reason", NO_REASON),
        deadline_s=body.get("deadline_s"),
    )
    return json_reply({"region": region, "changed": True, "setting": _shown(setting)})


async def _clear(region: str, kind: Kind, request: AnyRequest, state: State) -> Response[bytes]:
    http, database = _checked(region, state)
    return await _cleared(http, database, region, kind, request, await read_body(request, {"reason": _reason}))


async def _cleared(
    http: HttpState, database: Database, region: str, kind: Kind, request: AnyRequest, body: dict[str, Any]
) -> Response[bytes]:
    reason = body.get("reason", NO_REASON)
    before = await operators.clear(database, region, kind, who=who(request).name, reason=reason)
    return json_reply({"region": region, "changed": before is not None, "setting": None})


def _checked(region: str, state: State) -> tuple[HttpState, Database]:
    http = shared(state)
    check_region(region, table_in_use(http).policy)
    return http, http.database()


def _shown(setting: OperatorSetting) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(setting)
    set_at_ms, deadline_ms = row.pop("set_at_ms"), row.pop("deadline_ms")
    row["set_at"] = time_text(set_at_ms)
    row["deadline"] = None if deadline_ms is None else time_text(deadline_ms)
    return row
