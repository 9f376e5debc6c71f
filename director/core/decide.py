"""The decision: a pure function of route, key, token and time. HTTP, DNS, offline and the simulator all ask here."""

from __future__ import annotations

from math import ceil
from typing import Literal

from director.core import affinity as tokens
from director.core.decision import Decision, Reason, Refusal, RejectedCandidate, Target
from director.core.filters import BY_STATE, Candidate
from director.core.pick import hash_key, rank, salt, unit
from director.core.request import Request
from director.core.route import RANKED_MAX, CompiledRoute
from director.core.table import RoutingTable

FALLBACKS_MAX = 8
ANSWERS_MAX = 512
"""Answers kept per route: every order of four candidates, and the tokens of some. A kilobyte or two each."""
_RELEASE_SALT = salt("release")
_REASON_SALT = salt("reason")

AffinitySeen = Literal["none", "honoured", "released", "rejected", "expired", "forged", "foreign"]


def decide(table: RoutingTable, request: Request, now_ms: int) -> Decision | Refusal:
    """Answer one request from a plan. `now_ms` is the wall clock, for tokens, drains and open periods that end."""
    if request.tenant not in table.tenant_class:
        return Refusal("tenant_unknown")
    if request.model not in table.models:
        return Refusal("model_unknown")
    route = table.route(table.route_key(request))
    return decide_route(table, route, request.key, now_ms, request.affinity, request.exclude)


def decide_route(
    table: RoutingTable,
    route: CompiledRoute,
    key: str,
    now_ms: int,
    affinity: str | None = None,
    exclude: tuple[str, ...] = (),
) -> Decision | Refusal:
    """Answer for a compiled route. Filters first, affinity second: a token can only choose among the permitted."""
    seen: AffinitySeen = "none"
    key_hash = hash_key(key) if route.drawn else 0
    ranked = rank(key_hash, route.weights)
    plain = affinity is None and not exclude
    if plain and route.answers_from_ms <= now_ms < route.answers_until_ms:
        known = route.known.get(ranked[: route.rank_kept])
        if known is not None:
            return known
    order = _order(route, ranked)
    if affinity is not None:
        claimed, seen = _claim(table, route, now_ms, affinity, exclude)
        if claimed is not None:
            order = (claimed, *[i for i in order if i != claimed][: RANKED_MAX - 1])
            return _answer(table, route, order, "affinity", now_ms, seen, exclude, keep=affinity)
    if not order:
        return refuse(route, now_ms, exclude)
    if exclude:
        order = _without(route, order, exclude)
        if not order:
            return refuse(route, now_ms, exclude)
    decision = _answer(table, route, order[:RANKED_MAX], _reason(route, order[0], key_hash), now_ms, seen, exclude)
    if plain and order[0] in route.certain:
        route.known[ranked[: route.rank_kept]] = decision
    return decision


def _order(route: CompiledRoute, ranked: tuple[int, ...]) -> tuple[int, ...]:
    """Candidates from the pick down; () when the key falls on the refused part."""
    holders = route.holders
    if ranked[0] >= len(holders):
        return ()
    return tuple([holders[i] for i in ranked if i < len(holders)])


def _without(route: CompiledRoute, order: tuple[int, ...], exclude: tuple[str, ...]) -> tuple[int, ...]:
    """A request that retries elsewhere: the next share holder, else the nearest that passes every filter."""
    rest = tuple(i for i in order if route.deployment(i).region not in exclude)
    return rest or tuple(i for i in route.eligible() if route.deployment(i).region not in exclude)[:1]


def _reason(route: CompiledRoute, i: int, key_hash: int) -> Reason:
    """Why this candidate holds the share that the key fell into; a share with several parts is split by hash."""
    lane = route.lane
    home, total = lane.home.get(i, 0.0), lane.total(i)
    if home >= total > 0:
        return "home"
    if total <= 0:
        return "overflow"
    draw = unit(key_hash, _REASON_SALT) * total
    if draw < home:
        return "home"
    return "overflow" if draw < total - lane.overload.get(i, 0.0) else "overloaded"


def _claim(
    table: RoutingTable, route: CompiledRoute, now_ms: int, token: str, exclude: tuple[str, ...]
) -> tuple[int | None, AffinitySeen]:
    """The candidate that a token leads to, if it still may."""
    claim = tokens.verify(table.keyring, token, route.mark, now_ms)
    if claim.verdict != "valid":
        return None, claim.verdict
    if claim.region in exclude:
        return None, "rejected"
    open_to_it = [
        i for i in route.positions_in(claim.region) if route.is_eligible(i) or _drains_still(route, i, now_ms)
    ]
    if not open_to_it:
        return None, "rejected"
    # Versions of the model within the region: the one that a new session would get there.
    chosen = max(open_to_it, key=lambda i: (route.lane.total(i), route.lane.home_share.get(i, 0.0), -i))
    deployment = route.deployment(chosen)
    if deployment.release > 0 and unit(hash_key(token), _RELEASE_SALT) < deployment.release:
        return None, "released"
    return chosen, "honoured"


def _drains_still(route: CompiledRoute, i: int, now_ms: int) -> bool:
    """Whether a candidate only drains, and its deadline has not passed: valid tokens enter until then."""
    d = route.deployment(i)
    observed = route.index.regions[d.region]
    mark = observed.operator
    if mark is not None and (mark.kind != "drain" or (mark.deadline_ms is not None and now_ms >= mark.deadline_ms)):
        return False
    candidate = Candidate(d.region, None, observed, d, 0.0)
    rejections = [r for r in (reject(candidate, None) for reject in BY_STATE) if r is not None]
    return all(r.code == "draining" for r in rejections)


def _answer(
    table: RoutingTable,
    route: CompiledRoute,
    order: tuple[int, ...],
    reason: Reason,
    now_ms: int,
    seen: AffinitySeen,
    exclude: tuple[str, ...],
    keep: str | None = None,
) -> Decision:
    """The decision for an order of candidates, from the route's cache where the same was answered before."""
    if not route.answers_from_ms <= now_ms < route.answers_until_ms:
        _begin_answers(route, now_ms, table.policy.affinity.ttl_s)
    expires_s = route.answers_expire_s
    cache_key = (order, reason, seen, keep)
    found = None if exclude else route.answers.get(cache_key)
    if found is not None:
        return found
    chosen = order[0]
    target = route.target(chosen)
    token = tokens.issue(table.keyring, target.region, expires_s, route.mark)
    if keep is not None:
        token, expires_s = _renew(keep, token, expires_s, now_ms, table.policy.affinity.ttl_s)
    decision = Decision(
        target=target,
        reason=reason,
        fallbacks=_fallbacks(route, order, exclude),
        shares=route.shares,
        affinity_token=token,
        affinity_expires_in_s=round(expires_s - now_ms / 1000, 3) if keep is not None else table.policy.affinity.ttl_s,
        affinity_seen=seen,
    )
    if not exclude:
        if len(route.answers) >= ANSWERS_MAX:
            route.forget_answers()
        route.answers[cache_key] = decision
    return decision


def _begin_answers(route: CompiledRoute, now_ms: int, ttl_s: float) -> None:
    """Answers are kept for as long as a token made now expires at the same second."""
    route.forget_answers()
    route.answers_expire_s = tokens.expiry_s(now_ms, ttl_s)
    route.answers_until_ms = (route.answers_expire_s - ttl_s) * 1000
    route.answers_from_ms = route.answers_until_ms - tokens.EXPIRY_STEP_S * 1000


def _renew(presented: str, fresh: str, fresh_expires_s: int, now_ms: int, ttl_s: float) -> tuple[str, int]:
    """Keep a presented token for the first half of its life, so that what hashes it (the release) stays steady."""
    expires_s = int(presented.split(".")[3], 36)
    if expires_s - now_ms / 1000 > ttl_s / 2:
        return presented, expires_s
    return fresh, fresh_expires_s


def _fallbacks(route: CompiledRoute, order: tuple[int, ...], exclude: tuple[str, ...]) -> tuple[Target, ...]:
    """Where to go when the pick fails: the other share holders as the key ranks them, then the nearest permitted."""
    seen = {route.deployment(order[0]).region, *exclude}
    out: list[Target] = []
    for i in (*order[1:], *route.eligible()):
        region = route.deployment(i).region
        if region not in seen:
            seen.add(region)
            out.append(route.target(i))
            if len(out) == FALLBACKS_MAX:
                break
    return tuple(out)


RETRY_SOON_S = 2
"""Shares move with each plan, a second or two apart: a full fleet may have room by then."""
RETRY_REPORT_S = 5
"""A region that is lost or not ready is heard of again with a report."""
RETRY_S_MAX = 300


def refuse(route: CompiledRoute, now_ms: int, exclude: tuple[str, ...] = ()) -> Refusal:
    """No region is left: every candidate's reason, and when it is worth asking again, if ever."""
    rejected = route.rejected(exclude)
    overloaded = any(route.deployment(i).region not in exclude for i in route.eligible())
    waits = [RETRY_SOON_S] if overloaded else []
    waits += [w for w in (_wait_s(route, r, now_ms) for r in rejected) if w is not None]
    return Refusal("no_region", rejected, min(waits) if waits else None, overloaded=overloaded)


def _wait_s(route: CompiledRoute, rejected: RejectedCandidate, now_ms: int) -> int | None:
    rejection = rejected.rejection
    if rejection.permanent:
        return None
    if rejection.code == "breaker_open":
        until_ms = next(
            (
                d.breaker_until_ms
                for d in map(route.deployment, range(len(route.reach.order)))
                if (d.region, d.version) == (rejected.region, rejected.version)
            ),
            None,
        )
        if until_ms is not None:
            return min(RETRY_S_MAX, max(1, ceil((until_ms - now_ms) / 1000)))
    return RETRY_REPORT_S


def targets_in_order(route: CompiledRoute) -> tuple[Target, ...]:
    """The permitted regions of a route, nearest first: what an L7 keeps for the day the director is silent."""
    seen: dict[str, Target] = {}
    for i in range(len(route.reach.order)):
        seen.setdefault(route.deployment(i).region, route.target(i))
    return tuple(seen.values())
