"""One id from a request's header to its log lines, its answer and its events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import structlog
from structlog.testing import CapturingLogger, capture_logs

from director.core.events import Event
from director.http.request_id import told_id
from director.http.serve import running_http
from director.store.database import Database
from director.store.events import append, list_events
from tests.http.fakes import FakeView, auth


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with (
        running_http(FakeView(), "127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as opened,
    ):
        yield opened


@pytest.mark.parametrize("path", ["/health/live", "/regions", "/nothing-here", "/events"])
async def test_an_id_comes_back_with_every_answer(client: httpx.AsyncClient, path: str) -> None:
    """Also with one that is an error: that is when it is asked for."""
    reply = await client.get(path, headers={**auth("read"), "X-Request-Id": "abc-123"})
    assert reply.headers.get_list("x-request-id") == ["abc-123"]


@pytest.mark.parametrize("told", [None, "", "two words", "x" * 129, "ümläut"])
async def test_one_is_made_where_none_can_be_used(client: httpx.AsyncClient, told: str | None) -> None:
    """A header that would break a log line or grow it is not taken; two requests never share a made one."""
    headers = {} if told is None else {"X-Request-Id": told.encode()}
    made = {(await client.get("/health/live", headers=headers)).headers["x-request-id"] for _ in range(2)}
    assert len(made) == 2
    assert told not in made


async def test_two_headers_are_no_id() -> None:
    """Which of them it was would be a guess."""
    assert told_id([(b"x-request-id", b"a"), (b"x-request-id", b"b")]) is None
    assert told_id([(b"x-request-id", b"a"), (b"other", b"b")]) == "a"


async def test_every_log_line_of_a_request_carries_it(client: httpx.AsyncClient) -> None:
    """Bound around the request, and gone after it."""
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        report = await client.put(
            "/regions/eu-west-1/report", content=b"{}", headers={**auth("report:eu-west-1"), "X-Request-Id": "r-9"}
        )
    assert report.status_code == 422
    (line,) = [one for one in lines if one["event"] == "report_refused"]
    assert line["request_id"] == "r-9"
    assert "request_id" not in structlog.contextvars.get_contextvars()


@pytest.mark.postgres
async def test_an_event_names_the_request_that_caused_it(database: Database) -> None:
    """A drain over HTTP: the event in the list has the id of the request; what the planner writes has none."""
    async with (
        running_http(FakeView(database=database), "127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as asked,
    ):
        headers = {**auth("operate"), "X-Request-Id": "change-77"}
        drained = await asked.post("/regions/eu-west-1/drain", json={"reason": "kernel"}, headers=headers)
        assert drained.status_code == 200
        await append(database, Event("breaker", 1, "why"))
        told = (await asked.get("/events", headers=auth("read"))).json()
    assert {one["kind"]: one["request_id"] for one in told} == {"drain": "change-77", "breaker": None}
    stored = {one.event.kind: one.event.request_id for one in await list_events(database)}
    assert stored["drain"] == "change-77"


def test_logs_are_json_with_the_context_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, the event first a noun, everything else a field."""
    import json

    from director.serve import logs

    monkeypatch.setenv("DIRECTOR_LOG_FORMAT", "json")
    before = structlog.get_config()
    kept = CapturingLogger()
    try:
        logs.configure("api")
        structlog.configure(logger_factory=lambda *_: kept, cache_logger_on_first_use=False)
        with structlog.contextvars.bound_contextvars(request_id="r-1"):
            structlog.get_logger().warning("report_stale", region="eu-west-1", age_s=12)
    finally:
        structlog.configure(**before)
        structlog.contextvars.clear_contextvars()
    ((line,),) = [call.args for call in kept.calls]
    told = json.loads(line)
    assert told.pop("timestamp").endswith("Z")
    assert told == {
        "event": "report_stale",
        "level": "warning",
        "role": "api",
        "region": "eu-west-1",
        "age_s": 12,
        "request_id": "r-1",
    }
