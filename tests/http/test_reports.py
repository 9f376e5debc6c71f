"""`PUT /regions/{region}/report` over HTTP, into a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from director.http.serve import running_http
from director.store import events, reports
from director.store.database import Database
from tests.http.fakes import FakeView, auth
from tests.http.reports import REPORT, encoded, with_deployment, with_root

pytestmark = pytest.mark.postgres


@pytest.fixture
def view(database: Database) -> FakeView:
    return FakeView(database=database)


@pytest.fixture
async def client(view: FakeView) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        running_http(view, "127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as opened,
    ):
        yield opened


async def put(
    client: httpx.AsyncClient, report: Any, region: str = "eu-west-1", token: str | None = None
) -> httpx.Response:
    body = report if isinstance(report, bytes) else encoded(report)
    headers = auth(token or f"report:{region}")
    return await client.put(f"/regions/{region}/report", content=body, headers=headers)


async def test_a_report_is_taken_once(client: httpx.AsyncClient, database: Database) -> None:
    """202; the same again is 200 and changes nothing; an older one of the same boot is 409; a new boot wins."""
    first = await put(client, REPORT)
    assert first.status_code == 202
    assert first.json() == {
        "status": "accepted",
        "deployments": 1,
        "warnings": [],
        "dropped": [],
        "dropped_count": 0,
        "ignored_fields": [],
    }
    assert (await put(client, REPORT)).status_code == 200
    older = await put(client, with_root(sequence=3))
    assert older.status_code == 409
    assert older.headers["content-type"] == "application/problem+json"
    assert (await put(client, with_root(sequence=3, boot_id="another"))).status_code == 202
    (latest,) = await reports.latest_reports(database)
    assert (latest.report.boot_id, latest.report.sequence) == ("another", 3)


async def test_a_report_replaces_deployments_whole(client: httpx.AsyncClient, database: Database) -> None:
    """What is no longer listed is gone."""
    two = with_root(deployments=[REPORT["deployments"][0], {**REPORT["deployments"][0], "version": "2"}])
    assert (await put(client, two)).json()["deployments"] == 2
    assert (await put(client, with_root(sequence=184468))).status_code == 202
    (latest,) = await reports.latest_reports(database)
    assert [one.version for one in latest.report.deployments] == ["2026-08-14"]


async def test_dropped_deployments_are_listed_and_evented_once(client: httpx.AsyncClient, database: Database) -> None:
    """The answer names what was left out; an event is written when that changes, not for each report."""
    for sequence in (1, 2, 3):
        report = with_deployment(kv_usage=7)
        report["sequence"] = sequence
        report["deployments"].append({**REPORT["deployments"][0], "version": "good"})
        reply = await put(client, report)
        assert reply.status_code == 202
        assert reply.json()["dropped_count"] == 1
        (dropped,) = reply.json()["dropped"]
        assert (dropped["model"], dropped["errors"][0]["path"]) == ("llama", "deployments[0].kv_usage")
    told = [one.event for one in await events.list_events(database, region="eu-west-1")]
    assert [one.kind for one in told] == ["report_deployments_dropped"]
    assert "kv_usage" in told[0].why


async def test_fields_of_a_newer_schema_are_listed_and_evented(client: httpx.AsyncClient, database: Database) -> None:
    """An agent that is one release ahead does not go dark."""
    report = with_deployment(gpu_power_w=5)
    report["schema"] = 2
    reply = await put(client, report)
    assert reply.status_code == 202
    assert reply.json()["ignored_fields"] == ["deployments[].gpu_power_w"]
    assert reply.json()["warnings"]
    told = [one.event.kind for one in await events.list_events(database)]
    assert told == ["report_fields_unknown"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"nope",
        encoded(with_deployment(kv_usage=7)),
        encoded(REPORT).replace(b"1410", b"NaN"),
        encoded(with_root(helth="ok")),
    ],
)
async def test_what_cannot_be_used_changes_nothing(client: httpx.AsyncClient, database: Database, raw: bytes) -> None:
    """422 as a problem document with paths; nothing is stored, no deployment replaced."""
    await put(client, REPORT)
    reply = await put(client, raw)
    assert reply.status_code == 422
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["errors"]
    (latest,) = await reports.latest_reports(database)
    assert latest.report.sequence == REPORT["sequence"]
    assert len(latest.report.deployments) == 1


async def test_only_the_regions_own_token(client: httpx.AsyncClient, database: Database) -> None:
    """Another region's token, another scope, or none: nothing is stored."""
    assert (await put(client, REPORT, token="report:us-east-1")).status_code == 403
    assert (await put(client, REPORT, token="decide")).status_code == 403
    assert (await put(client, REPORT, token="nobody")).status_code == 401
    assert (await client.put("/regions/eu-west-1/report", content=encoded(REPORT))).status_code == 401
    assert await reports.latest_reports(database) == []


async def test_a_region_that_the_policy_does_not_know(client: httpx.AsyncClient, view: FakeView) -> None:
    """404 with the near miss; without a policy in hand the report is taken."""
    view.tokens.grants["agent"] = view.tokens.grants["report:eu-west-1"].__class__("a", frozenset({"report"}))
    reply = await put(client, REPORT, region="eu-west-2", token="agent")
    assert reply.status_code == 404
    assert reply.json()["errors"][0]["suggestion"] == "eu-west-1"
    view.table = None
    assert (await put(client, REPORT, region="eu-west-2", token="agent")).status_code == 202


async def test_size_limits(client: httpx.AsyncClient) -> None:
    """A report just under 4 MiB is taken; above it, 413 as a problem document."""
    filler = {"model": "m", "replicas": {"ready": 1, "total": 1}, "adapters": {"loaded": ["a" * 200] * 8}}
    many = with_root(deployments=[{**filler, "version": str(i)} for i in range(2000)])
    body = encoded(many)
    assert 3_400_000 < len(body) < 4 * 1024 * 1024
    assert (await put(client, body)).status_code == 202
    over = await put(client, body + b" " * (4 * 1024 * 1024))
    assert over.status_code == 413
    assert over.headers["content-type"] == "application/problem+json"


async def test_database_away(client: httpx.AsyncClient, view: FakeView) -> None:
    """503 with Retry-After while the database cannot be reached; decisions go on."""
    away = Database("postgresql://nobody@/none?host=/nowhere")
    view.database = away
    reply = await put(client, REPORT)
    assert reply.status_code == 503
    assert reply.json()["code"] == "database_away"
    assert int(reply.headers["retry-after"]) > 0
    decided = await client.post("/select-region", json={"tenant": "acme", "model": "llama"}, headers=auth())
    assert decided.status_code == 200
    await away.close()
