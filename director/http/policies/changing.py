"""Checking, braking and applying a policy: one way for the API and the dashboard.

The brake: a policy that would move more than `moved_share_max` of all traffic is refused, with what would move, unless
it is forced with a reason. The limit is the running policy's own: a new one cannot let itself through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from director.core.policy import Policy
from director.http.policies.foresee import moves_of_policy
from director.http.policies.moves import Moves
from director.http.problem import FieldProblem, Problem, ProblemRaised, malformed
from director.http.state import HttpState
from director.store import policies
from director.store.policies import StoredPolicy

if TYPE_CHECKING:
    from director.policy import LoadedPolicy

NO_REASON = "no reason given"


async def load_policy(files: Mapping[str, str]) -> LoadedPolicy:
    """The policy of these files. Raises a 422 problem with every finding."""
    # Here and not above: the YAML reader is needed once a week, and would stay in every api process.
    from director.policy import PolicyInvalid, load_files

    try:
        return await asyncio.to_thread(load_files, dict(files))
    except PolicyInvalid as invalid:
        detail = "; ".join(str(one) for one in invalid.problems[:5])
        raise ProblemRaised(Problem(422, "policy_invalid", detail, more={"problems": invalid.problems})) from None


async def version_before(http: HttpState, version: int | None) -> StoredPolicy:
    """A version to go back to: the one named, or the one before the newest. Raises a 404 problem."""
    database = http.database()
    newest = await policies.current_version(database)
    wanted = (newest or 0) - 1 if version is None else version
    stored = await policies.get(database, wanted) if wanted >= 1 else None
    if stored is None:
        problem = FieldProblem("version", "a version that is kept", str(wanted))
        raise ProblemRaised(Problem(404, "not_found", str(problem), errors=(problem,)))
    return stored


async def apply_policy(
    http: HttpState, policy: Policy, files: Mapping[str, str], *, who: str, reason: str | None, force: bool
) -> tuple[int, Moves | None]:
    """Make a policy the newest version, past the brake: the version, and what it moves. Raises a 409 problem."""
    moves = await moves_of_policy(http, policy)
    refuse_if_unsafe(http, moves, reason=reason, force=force)
    return await policies.add(http.database(), files, policy, who, reason or NO_REASON), moves


def refuse_if_unsafe(http: HttpState, moves: Moves | None, *, reason: str | None, force: bool) -> None:
    """Raises a 409 problem for a change that moves too much, and is not forced with a reason."""
    limit = brake_limit(http)
    if limit is None or moves is None or moves.moved_share <= limit:
        return
    if force:
        if reason:
            return
        raise ProblemRaised(malformed(FieldProblem("reason", "why this is forced", "nothing")))
    detail = (
        f"{moves.moved_share:.0%} of all traffic would move, more than moved_share_max allows ({limit:.0%}); "
        "force it with a reason"
    )
    raise ProblemRaised(Problem(409, "policy_unsafe", detail, more={"moves": moves}))


def brake_limit(http: HttpState) -> float | None:
    """The running policy's `moved_share_max`; None while nothing runs."""
    return None if http.view.table is None else http.view.table.policy.planner.moved_share_max
