"""`/dashboard/policy`: what runs, a check and a dry run of another, applying it past the brake, history, roll back."""

from __future__ import annotations

from typing import Any

from litestar import Response, get, post
from litestar.datastructures import State
from msgspec import Struct

from director.http.dashboard.rendering import page
from director.http.dashboard.session import SentElsewhere, Session, current, read_form, signed_in
from director.http.decision.question import parse_query
from director.http.policies.changing import apply_policy, brake_limit, load_policy, version_before
from director.http.policies.foresee import moves_of_policy
from director.http.policies.moves import Moves
from director.http.problem import Problem, ProblemRaised, malformed
from director.http.reading.fields import FieldRefused, Notes, text
from director.http.replies import AnyRequest
from director.http.state import HttpState, shared
from director.store import policies
from director.store.policies import PolicyVersion, StoredPolicy

BODY_BYTES_MAX = 48 * 1024 * 1024
"""A policy of 16 MiB, percent-encoded by the form."""
HISTORY_MAX = 50
PASTED = "policy.yaml"
_reason = text(500)


class Trial(Struct, frozen=True):
    """A policy that was checked: what is wrong with it, or what it would move."""

    files: dict[str, str]
    what: str
    problems: tuple[Any, ...] = ()
    refused: Problem | None = None
    warnings: tuple[Any, ...] = ()
    moves: Moves | None = None
    unsafe: bool = False
    version: int | None = None
    """Of a roll back: the version that is gone back to."""
    reason: str = ""

    @property
    def ok(self) -> bool:
        return not self.problems


@get("/dashboard/policy", guards=[signed_in("read")])
async def policy_page(request: AnyRequest, state: State) -> Response[bytes]:
    """The running version with its files, and the history."""
    try:
        told = parse_query(request.scope["query_string"])
    except FieldRefused as refused:
        raise ProblemRaised(malformed(*refused.problems)) from None
    return await _page(request, shared(state), current(request), None, told.get("done", ""))


@post("/dashboard/policy", guards=[signed_in("read")], status_code=200, request_max_body_size=BODY_BYTES_MAX)
async def policy_change(request: AnyRequest, state: State) -> Response[bytes]:
    """Check a policy and show what it would move; with `do=apply`, make it the newest version."""
    http, session = shared(state), current(request)
    told = await read_form(request)
    applies = told.get("do") == "apply"
    if applies and not session.allows("operate"):
        detail = f"the token {session.grant.name!r} does not hold the scope operate"
        raise ProblemRaised(Problem(403, "forbidden", detail))
    trial = await _tried(http, told)
    if applies and trial.ok:
        trial = await _applied(http, session, trial, told)
    return await _page(request, http, session, trial, "")


async def _tried(http: HttpState, told: dict[str, str]) -> Trial:
    if told.get("version"):
        version = int(told["version"]) if told["version"].isdigit() and len(told["version"]) < 18 else 0
        stored = await version_before(http, version)
        trial = Trial(stored.files, f"Version {version}, again", version=version, reason=told.get("reason", ""))
        return await _weighed(http, trial, stored.policy)
    pasted = told.get("pasted", "").strip()
    files = {name.removeprefix("file:"): value for name, value in told.items() if name.startswith("file:")}
    files = {PASTED: told["pasted"]} if pasted else files
    trial = Trial(files, "The pasted policy" if pasted else "The edited policy", reason=told.get("reason", ""))
    try:
        loaded = await load_policy(files)
    except ProblemRaised as raised:
        return Trial(files, trial.what, problems=raised.problem.more["problems"])
    trial = Trial(files, trial.what, warnings=tuple(loaded.warnings), reason=trial.reason)
    return await _weighed(http, trial, loaded.policy)


async def _weighed(http: HttpState, trial: Trial, policy: Any) -> Trial:
    moves = await moves_of_policy(http, policy)
    limit = brake_limit(http)
    unsafe = moves is not None and limit is not None and moves.moved_share > limit
    return Trial(
        trial.files, trial.what, warnings=trial.warnings, moves=moves, unsafe=unsafe, version=trial.version,
        reason=trial.reason,
    )  # fmt: skip


async def _applied(http: HttpState, session: Session, trial: Trial, told: dict[str, str]) -> Trial:
    """Apply, and go back to the page; or the trial with the refusal."""
    try:
        reason = _reason(told.get("reason", "").strip(), "reason", Notes())
        if trial.version is not None:
            stored = await version_before(http, trial.version)
            policy, why = stored.policy, f"back to version {trial.version}: {reason}"
        else:
            policy, why = (await load_policy(trial.files)).policy, reason
        version, _ = await apply_policy(
            http, policy, trial.files, who=session.grant.name, reason=why, force=told.get("force") == "yes"
        )
    except FieldRefused as refused:
        return _refused(trial, malformed(*refused.problems))
    except ProblemRaised as raised:
        return _refused(trial, raised.problem)
    raise SentElsewhere(f"/dashboard/policy?done={version}")


def _refused(trial: Trial, problem: Problem) -> Trial:
    return Trial(
        trial.files, trial.what, refused=problem, warnings=trial.warnings, moves=trial.moves, unsafe=trial.unsafe,
        version=trial.version, reason=trial.reason,
    )  # fmt: skip


async def _page(
    request: AnyRequest, http: HttpState, session: Session, trial: Trial | None, done: str
) -> Response[bytes]:
    database = http.database()
    newest: StoredPolicy | None = await policies.current(database)
    history: list[PolicyVersion] = await policies.history(database, HISTORY_MAX)
    refused = trial is not None and (trial.refused is not None or not trial.ok)
    return page(
        request,
        "policy.html",
        session,
        422 if refused else 200,
        tab="policy",
        title="Policy",
        newest=newest,
        history=history,
        in_use=http.view.policy_version,
        trial=trial,
        done=done if done.isdigit() else "",
        limit=brake_limit(http),
        pasted=PASTED,
    )
