"""The decision endpoint: one function from a request's parts to an answer's bytes. No I/O, no await, no lock."""

from __future__ import annotations

from os import urandom

from director.core.decide import decide_route
from director.core.decision import Decision, Refusal
from director.core.policy import DEFAULT_ZONE, Policy
from director.core.request import Request
from director.core.table import RoutingTable
from director.core.zones import ZoneIndex
from director.http.decision.answer import Answer, PlanBytes, Prepared, problem_answer, refusal_problem
from director.http.decision.asked import METHODS, likely_mode, places, read_question
from director.http.decision.memos import Rights, RightsMemo, RouteMemo
from director.http.decision.question import BODY_BYTES_MAX, Question, question_from_body
from director.http.metrics import Counters
from director.http.problem import FieldProblem, Problem, ProblemRaised, malformed
from director.http.reading.fields import FieldRefused, describe, near_miss
from director.replica.view import ReplicaView

PATH = b"/select-region"
JSON_HEAD = b"Content-Type: application/json\r\n"
ALLOW_HEAD = b"Allow: GET, HEAD, POST, OPTIONS\r\n"
NOT_READY = Problem(503, "not_ready", "no plan has been read yet: no region can be named", retry_after_s=1)


class DecisionState:
    """What the endpoint keeps between requests: its view of the replica, its counters, its memos."""

    def __init__(self, view: ReplicaView, counters: Counters) -> None:
        self.view = view
        self.counters = counters
        self.rights = RightsMemo()
        self.routes = RouteMemo()
        self.plan_bytes = PlanBytes()
        self._boot = urandom(8).hex().encode()
        self._sequence = 0

    def next_id(self) -> bytes:
        """Unique over replicas and restarts: 64 random bits of this start, and a count."""
        self._sequence += 1
        return b"%b%010x" % (self._boot, self._sequence)


def is_decision_path(target: bytes) -> bool:
    """`/select-region`, or any path under it."""
    return target.startswith(PATH) and target[len(PATH) : len(PATH) + 1] in (b"", b"?", b"/")


def decide_http(
    method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes, state: DecisionState
) -> Answer:
    """Answer one request. `headers` have lower-case names; `target` is the path and query as they came.

    Never raises for anything that a client can send.
    """
    mode = "decision"
    try:
        rights = _authorised(headers, state)
        if (
            target == PATH
            and method == b"POST"
            and 0 < len(body) <= BODY_BYTES_MAX
            and not rights.grant.trusted_headers
        ):
            # The plain case, which need not ask where else something may have been told.
            return _answer(question_from_body(body), mode, rights, state)
        asked = places(target, headers, rights.grant.trusted_headers)
        mode = likely_mode(asked)
        if len(body) > BODY_BYTES_MAX:
            raise ProblemRaised(too_large())
        if method not in METHODS and mode != "ext_authz":
            raise ProblemRaised(Problem(405, "method_not_allowed", "ask with GET, HEAD or POST"))
        if method == b"OPTIONS" and mode != "ext_authz":
            return Answer(204, ALLOW_HEAD, b"")
        mode, question = read_question(asked, body)
        return _answer(question, mode, rights, state)
    except ProblemRaised as raised:
        problem = raised.problem
    except FieldRefused as refused:
        problem = malformed(*refused.problems)
    state.counters.refused(problem.code)
    answer = problem_answer(problem, mode)
    if problem.status == 405:
        return Answer(answer.status, answer.head + ALLOW_HEAD, answer.body)
    return answer


def too_large() -> Problem:
    return Problem(413, "too_large", f"a question has at most {BODY_BYTES_MAX} bytes")


def _authorised(headers: list[tuple[bytes, bytes]], state: DecisionState) -> Rights:
    authorization: bytes | None = None
    for name, value in headers:
        if name == b"authorization":
            if authorization is not None:
                raise ProblemRaised(Problem(401, "token_invalid", "send one Authorization header"))
            authorization = value
    return state.rights.of(authorization, state.view.tokens)


def _answer(question: Question, mode: str, rights: Rights, state: DecisionState) -> Answer:
    view = state.view
    table = view.table
    if table is None:
        raise ProblemRaised(NOT_READY)
    tenant, model = _names(question, table.policy)
    if rights.tenants is not None and tenant not in rights.tenants:
        detail = f"the token {rights.grant.name!r} may not decide for tenant {tenant!r}"
        raise ProblemRaised(Problem(403, "forbidden", detail))
    zone = _client_zone(question, table.policy, view.zones)
    names = (tenant, model, question.version, question.adapter, question.residency, zone)
    known = state.routes.get(table, names) or state.routes.learn(table, names, _checked(question, table, view.zones))
    route = known.route
    tokens = question.estimated_tokens or known.tokens_mean
    decision_id = state.next_id()
    key = question.session or question.request_id or decision_id.decode()
    now_ms = view.now_ms()
    decision = decide_route(table, route, key, now_ms, question.affinity, question.exclude or ())
    if isinstance(decision, Refusal):
        view.count_refusal(route, tokens)
        raise ProblemRaised(refusal_problem(decision, tenant, model))
    prepared: Prepared | None = route.prepared.get(decision)
    if prepared is None:
        prepared = Prepared(decision, state.counters)
        if not question.exclude:
            # The route caches what excludes nothing, and will answer it again.
            route.prepared[decision] = prepared
    prepared.cell[0] += 1
    view.count_decision(route, decision, tokens, _presented_region(decision, question.affinity))
    plan = state.plan_bytes
    if now_ms != plan.made_at_ms or table is not plan.table:
        plan.refresh(table, now_ms, view.plan_age_ms(), view.static, view.policy_version)
    if mode == "auth_request":
        return Answer(204, prepared.head + plan.head, b"")
    return Answer(
        200,
        JSON_HEAD + prepared.head + plan.head,
        b'{"decision_id":"%b",%b%b' % (decision_id, prepared.middle, plan.tail),
    )


def _presented_region(decision: Decision, affinity: str | None) -> str | None:
    """The region that a valid token named, where the session could have stayed there: it is demand pinned to it."""
    if affinity is None or decision.affinity_seen not in ("honoured", "released"):
        return None
    return affinity.split(".")[2]


def _checked(question: Question, table: RoutingTable, zones: ZoneIndex) -> Request:
    """The question as a request whose tenant and model exist."""
    request = request_of(question, table.policy, zones, "")
    if request.tenant not in table.tenant_class:
        raise ProblemRaised(refusal_problem(Refusal("tenant_unknown"), request.tenant, request.model))
    if request.model not in table.models:
        raise ProblemRaised(refusal_problem(Refusal("model_unknown"), request.tenant, request.model))
    return request


def _names(question: Question, policy: Policy) -> tuple[str, str]:
    """Tenant and model. Raises `FieldRefused` for what is missing."""
    tenant, model = question.tenant or policy.default_tenant, question.model
    if tenant is not None and model is not None:
        return tenant, model
    raise FieldRefused(
        *(
            FieldProblem(name, "a value: it is required", "nothing")
            for name, value in (("tenant", tenant), ("model", model))
            if value is None
        )
    )


def request_of(question: Question, policy: Policy, zones: ZoneIndex, random_key: str) -> Request:
    """The core's request. Raises `FieldRefused` for a field that names nothing; tenant and model may be unknown still.

    Key of the pick: session, else request id, else random.
    """
    tenant, model = _names(question, policy)
    if question.residency:
        _check_tags(question.residency, policy)
    return Request(
        tenant,
        model,
        _client_zone(question, policy, zones),
        question.session or question.request_id or random_key,
        question.version,
        question.adapter,
        question.residency or (),
        question.exclude or (),
        question.affinity,
    )


def _check_tags(residency: tuple[str, ...], policy: Policy) -> None:
    """A tag outside the closed vocabulary would match nothing: a typo, not a wish."""
    unknown = [
        FieldProblem(
            f"residency[{i}]", "a jurisdiction of the policy", describe(tag), near_miss(tag, policy.jurisdictions)
        )
        for i, tag in enumerate(residency)
        if tag not in policy.jurisdictions
    ]
    if unknown:
        raise FieldRefused(*unknown)


def _client_zone(question: Question, policy: Policy, zones: ZoneIndex) -> str:
    zone = question.client_zone
    if zone is not None:
        if zone not in policy.client_zones and zone != DEFAULT_ZONE:
            suggestion = near_miss(zone, policy.client_zones)
            raise FieldRefused(FieldProblem("client_zone", "a client zone of the policy", describe(zone), suggestion))
        return zone
    if question.client_ip is None:
        return DEFAULT_ZONE
    try:
        return zones.zone_of(question.client_ip)
    except ValueError:
        raise FieldRefused(FieldProblem("client_ip", "an IPv4 or IPv6 address", describe(question.client_ip))) from None
