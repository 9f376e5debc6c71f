"""Errors over HTTP: RFC 9457 problem documents, and nothing else.

A problem is a value. Handlers that cannot go on raise `ProblemRaised`; the decision endpoint builds its bytes directly.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

CONTENT_TYPE = b"application/problem+json"

TITLES = {
    "malformed": "The request cannot be read",
    "token_missing": "A bearer token is needed",
    "token_invalid": "The bearer token is not valid",
    "forbidden": "The token does not allow this",
    "tenant_unknown": "The policy does not know this tenant",
    "model_unknown": "No deployment anywhere ever served this model",
    "no_region": "No region is left",
    "not_ready": "There is no plan to decide by",
    "region_unknown": "The policy does not know this region",
    "not_found": "There is nothing at this path",
    "method_not_allowed": "The method does not fit this path",
    "too_large": "The body is too large",
    "report_older": "A newer report of the same boot was accepted before",
    "report_unusable": "Nothing of the report can be used",
    "database_away": "The database cannot be reached",
    "policy_invalid": "The policy cannot be used",
    "policy_unsafe": "The policy would move more traffic than its own brake allows",
    "conflict": "The state does not allow this",
    "internal": "The director failed",
}


class FieldProblem(Struct, frozen=True, omit_defaults=True):
    """One field that cannot be used. `path` is dotted with list positions: `deployments[0].kv_usage`."""

    path: str
    expected: str
    got: str | None = None
    suggestion: str | None = None

    def __str__(self) -> str:
        text = f"{self.path or 'body'}: expected {self.expected}"
        if self.got is not None:
            text += f", got {self.got}"
        if self.suggestion is not None:
            text += f"; did you mean {self.suggestion!r}?"
        return text


class Problem(Struct, frozen=True):
    """What is wrong, once. `code` is stable and for machines; `more` joins the document at its top level."""

    status: int
    code: str
    detail: str
    errors: tuple[FieldProblem, ...] = ()
    retry_after_s: int | None = None
    more: dict[str, Any] = {}

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "type": f"urn:region-director:problem:{self.code}",
            "title": TITLES[self.code],
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = self.errors
        if self.retry_after_s is not None:
            document["retry_after_s"] = self.retry_after_s
        document.update(self.more)
        return document

    def body(self) -> bytes:
        return msgspec.json.encode(self.document())

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Content type, and what the status asks for: `Retry-After`, `WWW-Authenticate`."""
        headers = [(b"content-type", CONTENT_TYPE)]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after_s))
        if self.status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="region-director"'))
        return headers


class ProblemRaised(Exception):
    """Ends a handler with a problem document."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def malformed(*errors: FieldProblem) -> Problem:
    """400, with every field that cannot be used."""
    return Problem(400, "malformed", "; ".join(str(error) for error in errors), errors=errors)


FAILED = Problem(500, "internal", "the director failed; its log says how")


def database_away() -> Problem:
    return Problem(503, "database_away", "Postgres cannot be reached; try again shortly", retry_after_s=2)
