"""What operators read and set, over HTTP and a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
from msgspec import structs

from director.core.events import Event
from director.core.plan import OperatorMark, RegionPlan
from director.http.serve import running_http
from director.store import events, operators, outcomes, plans, policies
from director.store.database import Database
from director.store.lease import acquire
from tests.http.fakes import NOW_MS, POLICY, FakeView, auth, deployment, plan

pytestmark = pytest.mark.postgres
OPERATE = auth("operate")
READ = auth("read")


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


async def test_drain_and_undrain(client: httpx.AsyncClient, database: Database) -> None:
    """A drain is stored with who, why and until when, and ends; each is an event."""
    body = {"deadline_s": 600, "reason": "kernel update"}
    reply = await client.post("/regions/eu-west-1/drain", json=body, headers=OPERATE)
    assert reply.status_code == 200
    (setting,) = await operators.list_settings(database)
    assert (setting.kind, setting.who, setting.reason) == ("drain", "ops", "kernel update")
    assert setting.deadline_ms is not None
    assert setting.deadline_ms - setting.set_at_ms == 600_000
    assert reply.json()["setting"]["deadline"].endswith("Z")
    ended = await client.post("/regions/eu-west-1/undrain", headers=OPERATE)
    assert (ended.status_code, ended.json()["changed"]) == (200, True)
    assert await operators.list_settings(database) == ()
    again = await client.post("/regions/eu-west-1/undrain", headers=OPERATE)
    assert again.json()["changed"] is False
    told = (await client.get("/events", params={"region": "eu-west-1"}, headers=READ)).json()
    assert [(one["kind"], one["who"], one["why"]) for one in told] == [
        ("drain", "ops", "kernel update"),
        ("undrain", "ops", "no reason given"),
    ]


async def test_down_up_and_cap(client: httpx.AsyncClient, database: Database) -> None:
    """`down` and `cap` stand beside each other; `up` and a share of null end them."""
    assert (await client.post("/regions/us-east-1/down", json={"reason": "fire"}, headers=OPERATE)).status_code == 200
    capped = await client.post("/regions/us-east-1/cap", json={"share": 0.25, "reason": "test"}, headers=OPERATE)
    assert capped.json()["setting"]["share"] == 0.25
    assert [one.kind for one in await operators.list_settings(database)] == ["cap", "down"]
    assert (await client.post("/regions/us-east-1/up", headers=OPERATE)).json()["changed"] is True
    assert (await client.post("/regions/us-east-1/cap", json={"share": None}, headers=OPERATE)).json()[
        "changed"
    ] is True
    assert await operators.list_settings(database) == ()


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("drain", {"deadline_s": -1}, "deadline_s"),
        ("drain", {"deadline": 5}, "deadline"),
        ("drain", {"reason": ""}, "reason"),
        ("cap", {"share": 1.5}, "share"),
        ("cap", {"reason": "x"}, "share"),
        ("down", {"share": 1}, "share"),
    ],
)
async def test_operators_typos_are_refused(client: httpx.AsyncClient, path: str, body: object, field: str) -> None:
    """400 with the field; nothing is set."""
    reply = await client.post(f"/regions/eu-west-1/{path}", json=body, headers=OPERATE)
    assert reply.status_code == 400
    assert reply.json()["errors"][0]["path"] == field


async def test_operators_need_scope_and_region(client: httpx.AsyncClient) -> None:
    """`read` does not operate; an unknown region is 404 with the near miss."""
    assert (await client.post("/regions/eu-west-1/down", headers=READ)).status_code == 403
    reply = await client.post("/regions/eu-wst-1/down", headers=OPERATE)
    assert (reply.status_code, reply.json()["errors"][0]["suggestion"]) == (404, "eu-west-1")


async def test_regions_show_observed_and_set_side_by_side(client: httpx.AsyncClient, view: FakeView) -> None:
    """H3: freshness, breaker with its end, and what an operator set are all readable."""
    mark = OperatorMark("drain", "ops", "update", NOW_MS + 60_000)
    regions = (RegionPlan("eu-west-1", "stale", operator=mark, share_cap=0.5), RegionPlan("us-east-1", "fresh"))
    open_breaker = deployment("eu-west-1", breaker="open", breaker_until_ms=NOW_MS + 5_000)
    view.serve(plan(1900, (open_breaker,), regions=regions))
    reply = await client.get("/regions", headers=READ)
    assert reply.status_code == 200
    by_name = {one["region"]: one for one in reply.json()["regions"]}
    assert list(by_name) == list(POLICY.regions)
    shown = by_name["eu-west-1"]
    assert (shown["freshness"], shown["operator"]["kind"], shown["share_cap"]) == ("stale", "drain", 0.5)
    assert shown["operator"]["deadline"].endswith("Z")
    assert shown["deployments"][0]["breaker"] == "open"
    assert shown["deployments"][0]["breaker_until"].endswith("Z")
    assert by_name["eu-central-1"]["freshness"] == "unseen"


async def test_plan_and_plans(client: httpx.AsyncClient, database: Database) -> None:
    """The plan in use says its age; earlier ones are listed by epoch."""
    told = (await client.get("/plan", headers=READ)).json()
    assert (told["epoch"], told["age_ms"], told["static"], told["policy"]) == (1841, 640, False, 17)
    assert len(told["deployments"]) == 3
    term = await acquire(database, "tests", 30)
    assert term is not None
    for epoch, previous in ((10, 0), (12, 10), (15, 12)):
        await plans.publish(database, b"{}", structs.replace(plan(epoch), previous=previous, term=term), (), term)
    listed = (await client.get("/plans", params={"since": 10}, headers=READ)).json()
    assert [one["epoch"] for one in listed] == [12, 15]
    assert len((await client.get("/plans?limit=1", headers=READ)).json()) == 1
    assert (await client.get("/plans?since=x", headers=READ)).status_code == 400


async def test_events_by_filter(client: httpx.AsyncClient, database: Database) -> None:
    """Region, kind, time and id narrow the list; a misspelt filter is refused."""
    for i, (kind, region) in enumerate((("a", "eu-west-1"), ("b", "eu-west-1"), ("a", "us-east-1"))):
        await events.append(database, Event(kind, NOW_MS + i * 1000, f"why {i}", region=region))

    async def whys(**query: str | int) -> list[str]:
        reply = await client.get("/events", params=query, headers=READ)
        assert reply.status_code == 200
        return [one["why"] for one in reply.json()]

    assert await whys() == ["why 0", "why 1", "why 2"]
    assert await whys(kind="a") == ["why 0", "why 2"]
    assert await whys(region="eu-west-1", kind="a") == ["why 0"]
    first = (await client.get("/events", headers=READ)).json()[0]
    assert await whys(since_id=first["id"], limit=1) == ["why 1"]
    assert await whys(until=first["at"]) == ["why 0"]
    refused = await client.get("/events", params={"regoin": "x"}, headers=READ)
    assert (refused.status_code, refused.json()["errors"][0]["suggestion"]) == (400, "region")


async def test_explain_now_and_then(client: httpx.AsyncClient, database: Database) -> None:
    """The same body as a decision; with `at`, the plan and the policy of that moment."""
    question = {"tenant": "acme", "model": "llama", "client_zone": "europe", "session": "s"}
    now = await client.post("/explain", json=question, headers=READ)
    assert now.status_code == 200
    told = now.json()
    assert told["plan"]["epoch"] == 1841
    codes = {one["region"]: (one["rejection"] or {}).get("code") for one in told["candidates"]}
    assert codes == {"eu-west-1": None, "eu-central-1": None, "us-east-1": "residency"}
    decided = await client.post("/select-region", json=question, headers=auth())
    assert decided.json()["region"] == told["region"]

    version = await policies.add(database, {"p.yaml": "x"}, POLICY, "tests", "first")
    term = await acquire(database, "tests", 30)
    assert term is not None
    old = structs.replace(plan(7, (deployment("eu-central-1"),)), previous=0, term=term, policy=version)
    await plans.publish(database, b"{}", old, (), term)
    then = await client.post("/explain", json={**question, "at": "2099-01-01T00:00:00Z"}, headers=READ)
    assert (then.json()["plan"]["epoch"], then.json()["region"]) == (7, "eu-central-1")
    before = await client.post("/explain", json={**question, "at": "1999-01-01T00:00:00Z"}, headers=READ)
    assert before.status_code == 404


async def test_explain_refuses_what_a_decision_refuses(client: httpx.AsyncClient) -> None:
    """The same checks, the same paths; and it counts nothing."""
    reply = await client.post("/explain", json={"tenant": "acme", "modle": "llama"}, headers=READ)
    assert reply.status_code == 400
    assert {one["path"] for one in reply.json()["errors"]} == {"modle"}
    assert (await client.post("/explain", json={"tenant": "x"}, headers=auth("decide"))).status_code == 403


async def test_explain_changes_nothing(client: httpx.AsyncClient, view: FakeView) -> None:
    """An explanation is no demand."""
    await client.post("/explain", json={"tenant": "acme", "model": "llama"}, headers=READ)
    assert view.counted == []


async def test_outcomes_count_once(client: httpx.AsyncClient, database: Database) -> None:
    """202 for a batch, 200 for the same again; what the policy does not know is listed and counts nothing."""
    one = {"region": "eu-west-1", "model": "llama", "version": "2026-08-14", "class": "ok", "count": 20, "ttft_ms": 310}
    bad = {**one, "region": "eu-west-9"}
    batch = {"reporter": "edge-7", "batch": "b1", "outcomes": [one, bad, {**one, "class": "timeout", "count": 1}]}
    first = await client.post("/outcomes", json=batch, headers=auth())
    assert (first.status_code, first.json()) == (202, {"status": "accepted", "outcomes": 2, "ignored": ["outcomes[1]"]})
    assert (await client.post("/outcomes", json=batch, headers=auth())).status_code == 200
    stored, _ = await outcomes.since(database, 0)
    assert [(one.reporter, one.outcome, one.count) for one in stored] == [
        ("edge-7", "ok", 20),
        ("edge-7", "timeout", 1),
    ]
    wrong = {**batch, "batch": "b2", "outcomes": [{**one, "class": "bad"}, {**one, "count": 0}]}
    reply = await client.post("/outcomes", json=wrong, headers=auth())
    assert reply.status_code == 400
    assert reply.json()["errors"][0]["path"] == "outcomes[0].class"


async def test_database_away_is_a_problem_for_operators_too(client: httpx.AsyncClient, view: FakeView) -> None:
    """503 with Retry-After; what rests on memory goes on."""
    view.database, view.degraded = Database("postgresql://nobody@/none?host=/nowhere"), True
    for path in ("/events", "/plans"):
        reply = await client.get(path, headers=READ)
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "2")
    assert (await client.get("/regions", headers=READ)).json()["regions"][0]["report_age_ms"] is None
    assert (await client.get("/health/ready")).json()["status"] == "degraded"
    assert msgspec.json.decode((await client.get("/plan", headers=READ)).content)["epoch"] == 1841
    await view.database.close()
