"""`POST /policy/check`, `GET|PUT /policy`, `POST /policy/rollback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Response, get, post, put
from litestar.datastructures import State

from director.core.policy import Policy
from director.http.guards import needs, no_query, who
from director.http.policies.changing import NO_REASON, apply_policy, load_policy, version_before
from director.http.policies.foresee import moves_of_policy
from director.http.problem import FieldProblem, ProblemRaised, malformed
from director.http.reading.fields import boolean, text, whole
from director.http.reading.strict_json import NotJson, read_json
from director.http.replies import AnyRequest, json_reply, read_body, read_query, time_text
from director.http.state import HttpState, shared
from director.store import policies

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
    return json_reply({"ok": True, "warnings": loaded.warnings, "moves": await moves_of_policy(http, loaded.policy)})


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
    told = await read_body(request, {"version": whole(at_least=1), "reason": REASON, "force": boolean})
    stored = await version_before(http, told.get("version"))
    reason = f"back to version {stored.version}: {told.get('reason', NO_REASON)}"
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
    answer: dict[str, Any] = {"applied": False, "version": None, "warnings": warnings}
    if not flags.get("apply", False):
        return json_reply(answer | {"moves": await moves_of_policy(http, policy)})
    version, moves = await apply_policy(
        http, policy, files, who=who(request).name, reason=flags.get("reason"), force=flags.get("force", False)
    )
    return json_reply(answer | {"applied": True, "version": version, "moves": moves})


async def _loaded(request: AnyRequest) -> LoadedPolicy:
    return await load_policy(_files(request, await request.body()))


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
