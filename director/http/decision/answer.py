"""A decision as bytes: everything that can be written before it is asked for, written once.

What differs from one answer to the next is the decision's id and the plan's age. The rest of an answer is prepared per
decision (and kept in `route.prepared`, which the route clears together with its decisions) or per plan.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from director.core.decision import Decision, Refusal
from director.core.table import RoutingTable
from director.http.metrics import Counters
from director.http.problem import Problem

REUSE_S = 2
"""How long an L7 may pick from the same shares: plans come once a second, and this is two of them."""
STATIC_HEADERS = (b"X-Director-Static: false\r\n", b"X-Director-Static: true\r\n")


class Answer(Struct, frozen=True, gc=False):
    """Status, header lines (each ending in CRLF; neither Content-Length nor Date among them), body."""

    status: int
    head: bytes
    body: bytes

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The header lines taken apart, for a transport that wants them so."""
        lines = [line.partition(b": ") for line in self.head.split(b"\r\n") if line]
        return [(name.lower(), value) for name, _, value in lines]


def header_value(text: str) -> bytes:
    """A text from a policy or a report as a header value: visible ASCII stays, all else is percent-encoded."""
    if text.isascii() and text.isprintable():
        return text.encode()
    return quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~").encode()


class Prepared:
    """One decision's bytes, and its counter."""

    __slots__ = ("cell", "head", "middle")

    def __init__(self, decision: Decision, counters: Counters) -> None:
        target = decision.target
        fallbacks = ",".join(f"{one.region}={one.endpoint}" for one in decision.fallbacks)
        lines = [
            ("Region", target.region),
            ("Endpoint", target.endpoint),
            ("Version", target.version),
            ("Reason", decision.reason),
            ("Fallbacks", fallbacks),
            ("Affinity", decision.affinity_token),
        ]
        self.head = b"".join(b"X-Director-%b: %b\r\n" % (name.encode(), header_value(value)) for name, value in lines)
        self.middle = msgspec.json.encode(_body(decision))[1:-1]
        self.cell = counters.decision_cell(target.region, target.model, decision.reason, decision.affinity_seen)


def _body(decision: Decision) -> dict[str, Any]:
    target = decision.target
    return {
        "region": target.region,
        "endpoint": target.endpoint,
        "model": target.model,
        "version": target.version,
        "reason": decision.reason,
        "fallbacks": [{"region": one.region, "endpoint": one.endpoint} for one in decision.fallbacks],
        "affinity": {"token": decision.affinity_token, "expires_in_s": decision.affinity_expires_in_s},
        "shares": decision.shares,
        "reuse_s": REUSE_S,
    }


class PlanBytes:
    """What every answer says of its plan. Its holder remakes it for another table, and each millisecond."""

    __slots__ = ("head", "made_at_ms", "table", "tail")

    def __init__(self) -> None:
        self.table: RoutingTable | None = None
        self.made_at_ms = -1
        self.head = b""
        self.tail = b""

    def refresh(self, table: RoutingTable, now_ms: int, age_ms: int, static: bool, policy_version: int) -> None:
        self.table = table
        self.made_at_ms = now_ms
        epoch = table.plan.epoch
        self.head = b"X-Director-Epoch: %d\r\n%b" % (epoch, STATIC_HEADERS[static])
        self.tail = b',"plan":{"epoch":%d,"age_ms":%d,"static":%b,"policy":%d}}' % (
            epoch,
            age_ms,
            b"true" if static else b"false",
            policy_version,
        )


def refusal_problem(refusal: Refusal, tenant: str, model: str) -> Problem:
    """What a refusal by the core is over HTTP."""
    if refusal.code == "tenant_unknown":
        return Problem(403, "tenant_unknown", f"the policy knows no tenant {tenant!r}")
    if refusal.code == "model_unknown":
        return Problem(404, "model_unknown", f"no deployment anywhere ever served {model!r}")
    detail = "every permitted region is full" if refusal.overloaded else "no region is left that the policy allows"
    rejected = [
        {
            "region": one.region,
            "model": one.model,
            "version": one.version,
            "code": one.rejection.code,
            "filter": one.rejection.filter,
            "permanent": one.rejection.permanent,
            "detail": one.rejection.detail,
        }
        for one in refusal.rejected
    ]
    more = {"rejected": rejected, "overloaded": refusal.overloaded}
    return Problem(503, "no_region", detail, retry_after_s=refusal.retry_after_s, more=more)


def problem_answer(problem: Problem, mode: str) -> Answer:
    """A problem in the dialect that the asking proxy understands."""
    if mode == "auth_request" and problem.status != 401:
        return Answer(403, _auth_request_head(problem), b"")
    lines = [b"%b: %b\r\n" % pair for pair in problem.headers()]
    if problem.code in REFUSAL_CODES:
        lines.append(b"X-Director-Refusal: %b\r\n" % REFUSAL_CODES[problem.code])
    return Answer(problem.status, b"".join(lines), problem.body())


REFUSAL_CODES = {
    "no_region": b"no_region",
    "not_ready": b"no_region",
    "tenant_unknown": b"tenant_unknown",
    "model_unknown": b"model_unknown",
    "malformed": b"malformed",
    "too_large": b"malformed",
    "method_not_allowed": b"malformed",
}
"""NGINX turns any answer of a subrequest but 2xx, 401 and 403 into 500: so the reason travels in a header."""


def _auth_request_head(problem: Problem) -> bytes:
    head = b""
    if problem.code in REFUSAL_CODES:
        head = b"X-Director-Refusal: %b\r\n" % REFUSAL_CODES[problem.code]
    if problem.retry_after_s is not None:
        head += b"Retry-After: %d\r\n" % problem.retry_after_s
    return head
