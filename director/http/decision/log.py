"""The decision log: one line for a sampled part of all questions, with what was asked and what came of it.

Nothing of it exists while the ratio is 0. A sampled question is read a second time for its line, which keeps the path
of all others free of it. Neither session nor client address nor affinity token is written: who asked is told by
`request_id`, which the asker chose.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import structlog

from director.http.decision.answer import Answer
from director.http.decision.asked import places, read_question
from director.http.decision.endpoint import DecisionState, request_of
from director.http.decision.question import Question
from director.http.problem import ProblemRaised
from director.http.reading.fields import FieldRefused
from director.http.request_id import told_id

TOLD = {
    b"x-director-region": "region",
    b"x-director-version": "version",
    b"x-director-reason": "reason",
    b"x-director-epoch": "epoch",
    b"x-director-static": "static",
    b"x-director-refusal": "code",
}
"""Header of an answer → field of its line."""

log = structlog.get_logger()


class DecisionLog:
    """Draws which questions are logged, and writes them."""

    def __init__(self, ratio: float, state: DecisionState, draw: random.Random | None = None) -> None:
        self._ratio = ratio
        self._state = state
        self._draw = (draw or random.Random()).random

    def take(self, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes, answer: Answer) -> None:
        """Write this question's line, if it is one of the sample. Never raises."""
        if self._draw() >= self._ratio:
            return
        try:
            fields = {**self._asked(target, headers, body), **_answered(answer)}
            log.info("decision", status=answer.status, **fields)
            self._state.counters.logged += 1
        except Exception:
            log.exception("decision_not_logged")

    def _asked(self, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> dict[str, Any]:
        """What can be read of the question; a malformed one has its id and its code alone."""
        fields: dict[str, Any] = {"request_id": told_id(headers)}
        table = self._state.view.table
        authorization = next((value for name, value in headers if name == b"authorization"), None)
        try:
            rights = self._state.rights.of(authorization, self._state.view.tokens)
            fields["token"] = rights.grant.name
            mode, question = read_question(places(target, headers, rights.grant.trusted_headers), body)
            fields |= {"mode": mode, **_named(question)}
            if table is not None:
                fields["client_zone"] = request_of(question, table.policy, self._state.view.zones, "").client_zone
        except (ProblemRaised, FieldRefused):
            pass
        return {name: value for name, value in fields.items() if value is not None}


def _named(question: Question) -> dict[str, Any]:
    named = {
        "tenant": question.tenant,
        "model": question.model,
        "adapter": question.adapter,
        "residency": question.residency,
        "exclude": question.exclude,
        "estimated_tokens": question.estimated_tokens,
        "with_affinity": question.affinity is not None,
    }
    return named | ({"request_id": question.request_id} if question.request_id else {})


def _answered(answer: Answer) -> dict[str, Any]:
    fields: dict[str, Any] = {TOLD[name]: value.decode() for name, value in answer.headers() if name in TOLD}
    if "epoch" in fields:
        fields["epoch"] = int(fields["epoch"])
    if "static" in fields:
        fields["static"] = fields["static"] == "true"
    if answer.body:
        document: dict[str, Any] = msgspec.json.decode(answer.body)
        if answer.status == 200:
            fields["decision_id"] = document["decision_id"]
        else:
            fields["code"] = document["code"]
            fields["rejected"] = [f"{one['region']}: {one['code']}" for one in document.get("rejected", ())] or None
    return {name: value for name, value in fields.items() if value is not None}
