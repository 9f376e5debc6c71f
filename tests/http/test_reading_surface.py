"""Health, metrics, the page, the API document, fallbacks: what needs no database."""

from __future__ import annotations

import re
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar
from prometheus_client.parser import text_string_to_metric_families

from director.http.app import create_app
from director.http.openapi import OPERATIONS
from tests.http.fakes import POLICY, FakeView, auth, deployment, plan

READ = auth("read")


async def test_health(client: httpx.AsyncClient, view: FakeView) -> None:
    """Live always; ready with a plan, `degraded` while the database is away, 503 without a plan. No token."""
    assert (await client.get("/health/live")).json() == {"status": "live"}
    view.degraded = False
    ready = await client.get("/health/ready")
    assert (ready.status_code, ready.json()["status"], ready.json()["reasons"]) == (200, "ready", [])
    view.degraded = True
    degraded = await client.get("/health/ready")
    assert (degraded.status_code, degraded.json()["status"]) == (200, "degraded")
    assert degraded.json()["reasons"] == ["database_unavailable"]
    view.table = None
    not_ready = await client.get("/health/ready")
    assert (not_ready.status_code, not_ready.json()["code"]) == (503, "not_ready")
    assert not_ready.headers["content-type"] == "application/problem+json"


async def test_everything_but_health_wants_a_token(client: httpx.AsyncClient) -> None:
    """Every operation with a scope is 401 without a token and 403 with one that holds another scope."""
    for operation in OPERATIONS:
        path = operation.path.replace("{region}", "eu-west-1")
        reply = await client.request(operation.method, path)
        if operation.scope is None:
            assert reply.status_code in (200, 303, 403), operation.path
            continue
        assert reply.status_code == 401, operation.path
        assert reply.headers["content-type"] == "application/problem+json"
        other = "report:us-east-1" if operation.scope != "report:us-east-1" else "read"
        assert (await client.request(operation.method, path, headers=auth(other))).status_code == 403, operation.path


async def test_unknown_paths_are_problems(client: httpx.AsyncClient) -> None:
    """404 and 405 are problem documents; 405 says what is allowed."""
    lost = await client.get("/select-regions")
    assert (lost.status_code, lost.headers["content-type"]) == (404, "application/problem+json")
    wrong = await client.delete("/plan")
    assert (wrong.status_code, wrong.headers["content-type"]) == (405, "application/problem+json")
    assert "GET" in wrong.headers["allow"]


def routes_of(app: Litestar) -> set[tuple[str, str]]:
    found = set()
    for route in app.routes:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
        for method in route.methods:
            if method != "OPTIONS":
                found.add((method.lower(), path))
    return found


async def test_the_document_and_the_routes_agree(client: httpx.AsyncClient) -> None:
    """The OpenAPI document names every route that exists and no other, the decision endpoint included; pages apart."""
    document = (await client.get("/schema/openapi.json", headers=READ)).json()
    assert document["openapi"].startswith("3.1")
    written = {(method, path) for path, methods in document["paths"].items() for method in methods}
    decision = {("get", "/select-region"), ("post", "/select-region")}
    assert decision <= written
    pages = {one for one in routes_of(create_app(FakeView())) if one[1].startswith(("/dashboard/", "/static/"))}
    assert written - decision == routes_of(create_app(FakeView())) - decision - pages


async def test_every_reference_of_the_document_resolves(client: httpx.AsyncClient) -> None:
    """No dangling `$ref`."""
    document = (await client.get("/schema/openapi.json", headers=READ)).json()

    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            here = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return here + [one for value in node.values() for one in references(value)]
        return [one for value in node for one in references(value)] if isinstance(node, list) else []

    schemas = document["components"]["schemas"]
    found = references(document)
    assert found
    assert {one.removeprefix("#/components/schemas/") for one in found} <= set(schemas)


async def test_a_decision_fits_its_schema(client: httpx.AsyncClient) -> None:
    """The documented fields of a decision are those that are sent."""
    document = (await client.get("/schema/openapi.json", headers=READ)).json()
    schema = document["components"]["schemas"]["Decision"]
    reply = await client.post("/select-region", json={"tenant": "acme", "model": "llama"}, headers=auth())
    assert set(reply.json()) == set(schema["properties"]) == set(schema["required"])


async def test_metrics(client: httpx.AsyncClient, view: FakeView) -> None:
    """Counters are those of the decision path; labels never come from a request."""
    for _ in range(3):
        await client.post("/select-region", json={"tenant": "acme", "model": "llama", "session": "s"}, headers=auth())
    await client.post("/select-region", json={"tenant": "nobody-knows", "model": "secret"}, headers=auth())
    reply = await client.get("/metrics", headers=READ)
    assert reply.headers["content-type"].startswith("text/plain")
    assert "nobody-knows" not in reply.text
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    decisions = families["director_decisions"].samples
    assert sum(one.value for one in decisions) == 3
    assert {one.labels["reason"] for one in decisions} == {"home"}
    (refused,) = families["director_decision_refusals"].samples
    assert (refused.labels, refused.value) == ({"code": "tenant_unknown"}, 1)
    (view_of_time,) = [one for one in families["director_decision_seconds"].samples if one.name.endswith("_count")]
    assert view_of_time.value == 0
    assert families["director_plan_epoch"].samples[0].value == 1841
    assert families["director_ready"].samples[0].value == 1
    assert len(families["director_deployment_capacity_tokens_per_second"].samples) == 3
    view.table = None
    assert "director_ready 0.0" in (await client.get("/metrics", headers=READ)).text


async def test_decisions_are_timed_by_sample(client: httpx.AsyncClient) -> None:
    """Of every 64 requests one is timed."""
    for _ in range(128):
        await client.post("/select-region", json={"tenant": "acme", "model": "llama"}, headers=auth())
    reply = await client.get("/metrics", headers=READ)
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    told = {one.name: one.value for one in families["director_decision_seconds"].samples}
    assert told["director_decision_seconds_count"] == 2
    assert 0 < told["director_decision_seconds_sum"] < 1


async def test_fallbacks(client: httpx.AsyncClient) -> None:
    """Permitted regions in order, for the token's tenants alone, as near as the asked client zone has them."""
    reply = await client.get("/fallbacks", headers=auth("decide:acme"))
    assert reply.json() == {
        "policy": 17,
        "epoch": 1841,
        "client_zone": "default",
        "tenants": {
            "acme": {
                "llama": [
                    {"region": "eu-west-1", "endpoint": "https://eu-west-1.example.net"},
                    {"region": "eu-central-1", "endpoint": "https://eu-central-1.example.net"},
                ]
            }
        },
    }
    everyone = (await client.get("/fallbacks?client_zone=america", headers=auth())).json()["tenants"]
    assert set(everyone) == set(POLICY.tenants)
    assert [one["region"] for one in everyone["open"]["llama"]] == ["us-east-1", "eu-west-1", "eu-central-1"]
    assert [one["region"] for one in everyone["globex"]["llama"]] == ["us-east-1"]
    typo = await client.get("/fallbacks?client_zone=europa", headers=auth())
    assert (typo.status_code, typo.json()["errors"][0]["suggestion"]) == (400, "europe")


async def test_the_page(client: httpx.AsyncClient, view: FakeView) -> None:
    """A table of every region under a strict policy; every name is escaped."""
    view.serve(plan(1900, (deployment("eu-west-1", model="<script>alert(1)</script>"),)))
    reply = await client.get("/", headers=READ)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "<script>" not in reply.text
    assert all(region in reply.text for region in POLICY.regions)
    (link,) = re.findall(r'rel="stylesheet" href="([^"]+)"', reply.text)
    style = await client.get(link)
    assert (style.status_code, style.headers["content-type"]) == (200, "text/css; charset=utf-8")


@pytest.mark.parametrize("empty", [True, False])
async def test_the_page_without_anything(client: httpx.AsyncClient, view: FakeView, empty: bool) -> None:
    """No plan, and a plan without deployments, are pages too."""
    view.table = None
    if not empty:
        view.serve(plan(1, ()))
    assert (await client.get("/", headers=READ)).status_code == 200


async def test_a_failure_of_ours_says_nothing(client: httpx.AsyncClient, view: FakeView) -> None:
    """500 as a problem document; the trace is for the log alone."""
    view.readiness = None  # type: ignore[assignment,method-assign]
    reply = await client.get("/health/ready")
    assert (reply.status_code, reply.json()["code"]) == (500, "internal")
    assert "NoneType" not in reply.text
    assert msgspec.json.decode(reply.content)["status"] == 500


async def log_in(client: httpx.AsyncClient, token: str) -> httpx.Response:
    form = await client.get("/login")
    (value,) = re.findall(r'name="form" value="([^"]+)"', form.text)
    return await client.post("/login", data={"form": value, "token": token})


async def test_a_browser_logs_in_and_out(client: httpx.AsyncClient) -> None:
    """Without a session the page sends to the form; the session is a cookie that scripts cannot read."""
    browser = {"Accept": "text/html"}
    sent = await client.get("/", headers=browser)
    assert (sent.status_code, sent.headers["location"]) == (303, "/login")
    reply = await log_in(client, "read")
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    (session,) = (one for one in reply.headers.get_list("set-cookie") if one.startswith("director_session="))
    assert "HttpOnly" in session
    assert "SameSite=strict" in session
    assert (await client.get("/", headers=browser)).status_code == 200
    assert (await client.get("/regions")).status_code == 200
    assert (await client.post("/logout")).status_code == 303
    assert (await client.get("/", headers=browser)).status_code == 303


@pytest.mark.parametrize(("token", "status"), [("nobody", 401), ("", 401), ("decide", 403), ("<b>", 401)])
async def test_a_login_needs_a_reading_token(client: httpx.AsyncClient, token: str, status: int) -> None:
    """An unknown token and one without `read` are refused on the form, and set no session."""
    reply = await log_in(client, token)
    assert reply.status_code == status
    assert 'role="alert"' in reply.text
    assert "director_session" not in client.cookies


async def test_a_form_from_elsewhere_logs_nobody_in(client: httpx.AsyncClient) -> None:
    """Without the value that only our form has, nothing happens."""
    assert (await client.post("/login", data={"token": "read"})).status_code == 403
    await client.get("/login")
    assert (await client.post("/login", data={"token": "read", "form": "guess"})).status_code == 403
    assert "director_session" not in client.cookies


async def test_a_session_reads_and_sets_nothing(client: httpx.AsyncClient) -> None:
    """A browser's cookie cannot drain a region, whoever made it send the request."""
    await log_in(client, "operate")
    assert (await client.get("/plan")).status_code == 200
    assert (await client.post("/regions/eu-west-1/drain")).status_code == 401


async def test_a_query_where_none_is_read_is_refused(client: httpx.AsyncClient) -> None:
    """`drain?deadline_s=60` would drain for ever: it is 400 instead, with the name."""
    every = auth("all")
    for operation in OPERATIONS:
        if operation.query or not operation.scope or operation.path in ("/", "/metrics", "/schema/openapi.json"):
            continue
        path = operation.path.replace("{region}", "eu-west-1") + "?deadline_s=60"
        reply = await client.request(operation.method, path, headers=every)
        assert reply.status_code == 400, operation.path
        assert reply.json()["errors"][0]["path"] == "deadline_s"
