"""`POST /policy/check`, `GET|PUT /policy`, `POST /policy/rollback`.

The brake: a policy that would move more than `moved_share_max` of all traffic is refused, with what would move, unless
it is forced with a reason. The limit is the running policy's own: a new one cannot let itself through.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from litestar import Response, get, post, put
from litestar.datastructures import State

from director.core.policy import Policy
from director.core.request import RouteKey
from director.core.table import RoutingTable
from director.http.guards import needs, no_query, who
from director.http.operations.operators import NO_REASON
from director.http.policies.moves import Moves, compare
from director.http.problem import FieldProblem, Problem, ProblemRaised, malformed
from director.http.reading.fields import boolean, text, whole
from director.http.reading.strict_json import NotJson, read_json
from director.http.replies import AnyRequest, json_reply, read_body, read_query, time_text
from director.http.state import HttpState, shared
from director.store import demand, policies

if TYPE_CHECKING:
    from director.policy import LoadedPolicy

BODY_BYTES_MAX = 16 * 1024 * 1024
HISTORY_MAX = 100
REASON = text(500)
FLAGS = {"apply": boolean, "force": boolean, "reason": REASON}


@post("/policy/check", guards=[needs("read"), no_query], status_code=200, request_max_body_size=BODY_BYTES_MAX)
async def check_policy(request: AnyRequest, state: State) -> Response[bytes]:
    """Validate a policy: 200 with its warnings and what it would move, or 422 with every problem."""
    http = shared(state)
    loaded = await _loaded(request)
    return json_reply({"ok": True, "warnings": loaded.warnings, "moves": await _moves(http, loaded.policy)})


@get("/policy", guards=[needs("read"), no_query])
async def running_policy(state: State) -> Response[bytes]:
    """The newest version with its files, and the versions before it."""
    http = shared(state)
    database = http.database()
    stored = await policies.current(database)
    history = await policies.history(database, HISTORY_MAX)
    return json_reply(
        {
            "in_use": http.view.policy_version,
            "version": None if stored is None else stored.version,
            "files": {} if stored is None else stored.files,
            "history": [
                {"version": one.version, "who": one.who, "why": one.why, "at": time_text(one.at_ms)} for one in history
            ],
        }
    )


@put("/policy", guards=[needs("operate")], request_max_body_size=BODY_BYTES_MAX)
async def put_policy(request: AnyRequest, state: State) -> Response[bytes]:
    """Say what a policy would move; with `?apply=true`, make it the newest version."""
    flags = _flags(request)
    loaded = await _loaded(request)
    return await _change(request, shared(state), loaded.policy, loaded.files, loaded.warnings, flags)


@post("/policy/rollback", guards=[needs("operate"), no_query], status_code=200)
async def rollback(request: AnyRequest, state: State) -> Response[bytes]:
    """Make an earlier version the newest again: the one before the running one, or `version`."""
    http = shared(state)
    database = http.database()
    told = await read_body(request, {"version": whole(at_least=1), "reason": REASON, "force": boolean})
    newest = await policies.current_version(database)
    version = told.get("version", (newest or 0) - 1)
    stored = await policies.get(database, version) if version >= 1 else None
    if stored is None:
        problem = FieldProblem("version", "a version that is kept", str(version))
        raise ProblemRaised(Problem(404, "not_found", str(problem), errors=(problem,)))
    reason = f"back to version {version}: {told.get('reason', NO_REASON)}"
    flags = {"apply": True, "force": told.get("force", False), "reason": reason}
    return await _change(request, http, stored.policy, stored.files, (), flags)


async def _change(
    request: AnyRequest,
    http: HttpState,
    policy: Policy,
    files: dict[str, str],
    warnings: tuple[object, ...],
    flags: dict[str, Any],
) -> Response[bytes]:
    moves = await _moves(http, policy)
    answer: dict[str, Any] = {"applied": False, "version": None, "warnings": warnings, "moves": moves}
    if not flags.get("apply", False):
        return json_reply(answer)
    _brake(http, moves, flags)
    answer["version"] = await policies.add(
        http.database(), files, policy, who(request).name, flags.get("reason", NO_REASON)
    )
    answer["applied"] = True
    return json_reply(answer)


def _brake(http: HttpState, moves: Moves | None, flags: dict[str, Any]) -> None:
    """Raises a 409 problem for a change that moves too much, and is not forced with a reason."""
    table = http.view.table
    if table is None or moves is None or moves.moved_share <= table.policy.planner.moved_share_max:
        return
    if flags.get("force", False):
        if "reason" in flags:
            return
        raise ProblemRaised(malformed(FieldProblem("reason", "why this is forced", "nothing")))
    limit = table.policy.planner.moved_share_max
    detail = (
        f"{moves.moved_share:.0%} of all traffic would move, more than moved_share_max allows ({limit:.0%}); "
        "force it with a reason"
    )
    raise ProblemRaised(Problem(409, "policy_unsafe", detail, more={"moves": moves}))


async def _moves(http: HttpState, policy: Policy) -> Moves | None:
    """What the policy would move; None while there is no plan to compare under."""
    table = http.view.table
    if table is None:
        return None
    tokens: dict[RouteKey, float] = {}
    if http.view.database is not None and not http.view.degraded:
        samples, _ = await demand.since(http.view.database, None)
        for sample in samples:
            for route in sample.routes:
                pinned = sum(one.tokens for one in route.pinned)
                tokens[route.route] = tokens.get(route.route, 0.0) + route.new_tokens + pinned
    return await asyncio.to_thread(_compared, table, policy, tokens)


def _compared(table: RoutingTable, policy: Policy, tokens: dict[RouteKey, float]) -> Moves:
    running = RoutingTable(table.plan, table.policy, table.keyring)
    return compare(running, RoutingTable(table.plan, policy, table.keyring), tokens)


async def _loaded(request: AnyRequest) -> LoadedPolicy:
    """The policy of a body. Raises a 422 problem with every finding."""
    # Here and not above: the YAML reader is needed once a week, and would stay in every api process.
    from director.policy import PolicyInvalid, load_files

    files = _files(request, await request.body())
    try:
        return await asyncio.to_thread(load_files, files)
    except PolicyInvalid as invalid:
        detail = "; ".join(str(one) for one in invalid.problems[:5])
        raise ProblemRaised(Problem(422, "policy_invalid", detail, more={"problems": invalid.problems})) from None


def _files(request: AnyRequest, raw: bytes) -> dict[str, str]:
    """`{"files": {name: text}}` in JSON, or one YAML file as it is."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        try:
            return {"policy.yaml": raw.decode("utf-8")}
        except UnicodeDecodeError:
            raise ProblemRaised(malformed(FieldProblem("", "YAML in UTF-8", "other bytes"))) from None
    try:
        told = read_json(raw)
    except NotJson as error:
        raise ProblemRaised(malformed(error.problem)) from None
    files = told.get("files") if isinstance(told, dict) and set(told) == {"files"} else None
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        raise ProblemRaised(malformed(FieldProblem("files", 'an object {"files": {name: text}}', "something else")))
    return files


def _flags(request: AnyRequest) -> dict[str, Any]:
    return read_query(request, FLAGS, flags=("apply", "force"))
