"""The decision log: a sample of all questions, on every way of asking; nothing at all while it is off."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from director.http.app import create_app
from director.http.decision.answer import Answer
from director.http.decision.endpoint import DecisionState, decide_http
from director.http.decision.log import DecisionLog
from director.http.metrics import Counters
from director.http.protocol import DecisionProtocol, protocol_for
from director.http.serve import running_http
from tests.http.fakes import FakeView, auth

ASKED = {
    "tenant": "acme",
    "model": "llama",
    "client_ip": "203.0.113.7",
    "session": "conversation-4711",
    "request_id": "r-body",
    "exclude": ["us-east-1"],
}


@asynccontextmanager
async def over(way: str, ratio: float) -> AsyncIterator[httpx.AsyncClient]:
    view = FakeView()
    if way == "protocol":
        async with (
            running_http(view, "127.0.0.1", 0, decision_log_ratio=ratio) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
        ):
            yield client
        return
    app = create_app(view, decision_log_ratio=ratio)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:  # type: ignore[arg-type]
        yield client


def decisions(lines: list[Any]) -> list[Any]:
    return [line for line in lines if line["event"] == "decision"]


@pytest.mark.parametrize("way", ["protocol", "asgi"])
async def test_a_decision_is_one_line(way: str) -> None:
    """What was asked, what came of it, both ids; and nothing that tells a person or could be replayed."""
    async with over(way, 1.0) as client:
        with capture_logs() as lines:
            reply = await client.post("/select-region", json=ASKED, headers=auth())
    answer = reply.json()
    (line,) = decisions(lines)
    assert line == {
        "event": "decision",
        "log_level": "info",
        "status": 200,
        "token": "edge",
        "mode": "decision",
        "request_id": "r-body",
        "tenant": "acme",
        "model": "llama",
        "client_zone": "europe",
        "exclude": ("us-east-1",),
        "with_affinity": False,
        "region": answer["region"],
        "version": "2026-08-14",
        "reason": "home",
        "epoch": 1841,
        "static": False,
        "decision_id": answer["decision_id"],
    }
    for secret in ("conversation-4711", "203.0.113.7", answer["affinity"]["token"]):
        assert secret not in str(line)


@pytest.mark.parametrize("way", ["protocol", "asgi"])
async def test_refusals_are_lines_too(way: str) -> None:
    """With the code, each candidate's reason, and the id of the header where the body has none."""
    async with over(way, 1.0) as client:
        with capture_logs() as lines:
            asked = {"tenant": "acme", "model": "llama", "residency": ["US"]}
            await client.post("/select-region", json=asked, headers={**auth(), "X-Request-Id": "r-head"})
            await client.post("/select-region", content=b"{nonsense", headers=auth())
            told = await client.get("/select-region?tenant=acme&model=llama&mode=auth_request", headers=auth())
            await client.get("/select-region")
    refused, malformed, allowed, nobody = decisions(lines)
    assert (refused["status"], refused["code"], refused["request_id"]) == (503, "no_region", "r-head")
    assert "us-east-1: residency" in refused["rejected"]
    assert (malformed["status"], malformed["code"]) == (400, "malformed")
    assert (allowed["status"], allowed["mode"], allowed["region"]) == (
        204,
        "auth_request",
        told.headers["x-director-region"],
    )
    assert (nobody["status"], nobody["code"]) == (401, "token_missing")


async def test_off_there_is_nothing_of_it() -> None:
    """No line, and the very class that serves without a log: its cost is none."""
    async with over("protocol", 0.0) as client:
        with capture_logs() as lines:
            await client.post("/select-region", json=ASKED, headers=auth())
    assert decisions(lines) == []
    app = create_app(FakeView())
    assert app.state.http.decision_log is None
    plain = protocol_for(app.state.decision, app.state.http.decision_log)
    assert plain._decide is DecisionProtocol._decide


def test_the_sample_has_the_size_that_was_asked_for() -> None:
    """Of 2,000 questions at 0.1 about 200, counted as written."""
    view, counters = FakeView(), Counters()
    state = DecisionState(view, counters)
    log = DecisionLog(0.1, state, random.Random(7))
    headers = [(b"authorization", b"Bearer decide")]
    body = b'{"tenant":"acme","model":"llama"}'
    answer = decide_http(b"POST", b"/select-region", headers, body, state)
    with capture_logs() as lines:
        for _ in range(2_000):
            log.take(b"/select-region", headers, body, answer)
    assert 150 < len(decisions(lines)) < 250
    assert counters.logged == len(decisions(lines))


def test_a_line_that_cannot_be_written_harms_no_answer() -> None:
    """Whatever an answer looks like, the request that it belongs to goes on."""
    counters = Counters()
    log = DecisionLog(1.0, DecisionState(FakeView(), counters))
    with capture_logs() as lines:
        log.take(b"/select-region", [], b"", Answer(200, b"", b"no json"))
    assert [line["event"] for line in lines] == ["decision_not_logged"]
    assert counters.logged == 0
