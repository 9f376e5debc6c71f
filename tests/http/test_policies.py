"""Policies over HTTP: check, dry run, brake, apply, roll back."""

from __future__ import annotations

import httpx
import pytest
from msgspec import structs

from director.core.policy import Residency, Tenant
from director.core.request import RouteKey
from director.core.table import RoutingTable
from director.http.policies.moves import compare
from director.store import events, policies
from director.store.database import Database
from tests.http.fakes import KEYRING, POLICY, FakeView, auth, plan

OPERATE = auth("operate")
YAML = """
jurisdictions: [EU, IE, DE, US]
regions:
  eu-west-1: {jurisdictions: [EU, IE], location: {lat: 53.35, lon: -6.26}, endpoint: "https://eu-west-1.example.net"}
  eu-central-1: {jurisdictions: [EU, DE], location: {lat: 50.11, lon: 8.68}, endpoint: "https://eu-central-1.example.net"}
  us-east-1: {jurisdictions: [US], location: {lat: 38.95, lon: -77.45}, endpoint: "https://us-east-1.example.net"}
models: {llama: {objective: interactive}, qwen: {objective: interactive}}
objectives: {interactive: {spread_ms: 40}}
tenants:
  acme: {residency: {allow: [EU], forbid: [US]}, on_overload: refuse}
  globex: {residency: {allow: [US]}}
  open: {residency: anywhere}
client_zones:
  europe: {location: {lat: 50.1, lon: 8.7}, networks: [203.0.113.0/24]}
  america: {location: {lat: 40.0, lon: -80.0}, networks: [198.51.100.0/24]}
rtt_ms:
  europe: {eu-west-1: 12, eu-central-1: 14, us-east-1: 88}
  america: {eu-west-1: 80, eu-central-1: 95, us-east-1: 10}
"""
WIDER = YAML.replace("forbid: [US]", "forbid: []").replace("{allow: [US]}", "{allow: [EU]}")


def tables(policy: object) -> tuple[RoutingTable, RoutingTable]:
    return RoutingTable(plan(), POLICY, KEYRING), RoutingTable(plan(), policy, KEYRING)  # type: ignore[arg-type]


def test_the_same_policy_moves_nothing() -> None:
    """Nothing changed: nothing moves, nothing widens."""
    moves = compare(*tables(POLICY), {})
    assert (moves.moved_share, moves.routes_changed, moves.routes) == (0.0, 0, ())
    assert (moves.residency_widened, moves.residency_narrowed, moves.weighed_by) == ({}, {}, "routes")


def test_routes_weigh_as_much_as_their_demand() -> None:
    """A tenant with a quarter of the traffic that must move whole moves a quarter of it."""
    changed = structs.replace(POLICY, tenants={**POLICY.tenants, "globex": Tenant(Residency(allow=("EU",)))})
    acme = RouteKey("acme", (), "llama", "*", None, "europe")
    globex = RouteKey("globex", (), "llama", "*", None, "america")
    moves = compare(*tables(changed), {acme: 300.0, globex: 100.0})
    assert moves.moved_share == pytest.approx(0.25)
    assert moves.weighed_by == "demand"
    assert moves.residency_widened == {"globex": ("eu-central-1", "eu-west-1")}
    assert moves.residency_narrowed == {"globex": ("us-east-1",)}
    worst = moves.routes[0]
    assert (worst.tenant, worst.moved, worst.before) == ("globex", pytest.approx(1.0), {"us-east-1": 1.0})


def test_what_is_removed_counts_as_refused() -> None:
    """A tenant, model or region that goes away is named, and its traffic is refused."""
    tenants = {name: tenant for name, tenant in POLICY.tenants.items() if name != "acme"}
    regions = {name: region for name, region in POLICY.regions.items() if name != "us-east-1"}
    changed = structs.replace(POLICY, tenants=tenants, regions=regions, models={"llama": POLICY.models["llama"]})
    moves = compare(*tables(changed), {RouteKey("acme", (), "llama", "*", None, "europe"): 1.0})
    assert moves.moved_share == pytest.approx(1.0)
    assert (moves.tenants_removed, moves.models_removed, moves.regions_removed) == (
        ("acme",),
        ("qwen",),
        ("us-east-1",),
    )
    assert {one.tenant for one in moves.refused_more} >= {"acme", "globex"}


@pytest.mark.postgres
class TestOverHttp:
    @pytest.fixture
    def view(self, database: Database) -> FakeView:
        return FakeView(database=database)

    async def test_check(self, client: httpx.AsyncClient) -> None:
        """Fine: 200 with warnings and moves. Not fine: 422 with file, line, path and the near miss."""
        fine = await client.post("/policy/check", content=YAML, headers=auth("read"))
        assert fine.status_code == 200
        assert (fine.json()["ok"], fine.json()["moves"]["moved_share"]) == (True, 0.0)
        files = {"files": {"a.yaml": YAML.replace("forbid", "forbd")}}
        bad = await client.post("/policy/check", json=files, headers=auth("read"))
        assert (bad.status_code, bad.json()["code"]) == (422, "policy_invalid")
        (problem,) = bad.json()["problems"]
        assert (problem["file"], problem["line"], problem["suggestion"]) == ("a.yaml", 10, "forbid")
        for body in (b"{", b"[]", b'{"files": []}', b'{"files": {"a": 1}}', b'{"flies": {}}'):
            headers = {**auth("read"), "content-type": "application/json"}
            assert (await client.post("/policy/check", content=body, headers=headers)).status_code == 400

    async def test_a_dry_run_changes_nothing(self, client: httpx.AsyncClient, database: Database) -> None:
        """Without `apply`, what would move is said, widened residency by name, and nothing is stored."""
        reply = await client.put("/policy", content=WIDER, headers=OPERATE)
        assert reply.status_code == 200
        assert reply.json()["applied"] is False
        assert set(reply.json()["moves"]["residency_widened"]) == {"globex"}
        assert await policies.current(database) is None

    async def test_apply_brake_and_rollback(self, client: httpx.AsyncClient, database: Database) -> None:
        """Too much at once is 409 unless forced with a reason; versions are kept, and one can go back."""
        first = await client.put("/policy?apply=true&reason=first", content=YAML, headers=OPERATE)
        assert (first.status_code, first.json()["applied"], first.json()["version"]) == (200, True, 1)
        refused = await client.put("/policy?apply=true", content=WIDER, headers=OPERATE)
        assert (refused.status_code, refused.json()["code"]) == (409, "policy_unsafe")
        assert refused.json()["moves"]["moved_share"] > 0.3
        silent = await client.put("/policy?apply=true&force=true", content=WIDER, headers=OPERATE)
        assert (silent.status_code, silent.json()["errors"][0]["path"]) == (400, "reason")
        forced = await client.put("/policy?apply=true&force=true&reason=moving+house", content=WIDER, headers=OPERATE)
        assert (forced.status_code, forced.json()["version"]) == (200, 2)
        back = await client.post("/policy/rollback", json={"reason": "mistake"}, headers=OPERATE)
        assert (back.status_code, back.json()["version"]) == (200, 3)
        shown = (await client.get("/policy", headers=auth("read"))).json()
        assert shown["version"] == 3
        assert shown["files"] == {"policy.yaml": YAML}
        assert [(one["version"], one["who"], one["why"]) for one in shown["history"]] == [
            (3, "ops", "back to version 1: mistake"),
            (2, "ops", "moving house"),
            (1, "ops", "first"),
        ]
        kinds = [one.event.kind for one in await events.list_events(database)]
        assert kinds == ["policy", "policy", "policy"]

    async def test_a_bad_policy_changes_nothing(self, client: httpx.AsyncClient, database: Database) -> None:
        """422, and the running one stays."""
        await client.put("/policy?apply=true", content=YAML, headers=OPERATE)
        assert (await client.put("/policy?apply=true", content="tenants: 5", headers=OPERATE)).status_code == 422
        assert (await client.put("/policy?aply=true", content=YAML, headers=OPERATE)).status_code == 400
        assert (await client.put("/policy?apply=yes", content=YAML, headers=OPERATE)).status_code == 400
        assert await policies.current_version(database) == 1

    async def test_rollback_needs_a_version(self, client: httpx.AsyncClient) -> None:
        """With nothing before, 404 says so."""
        reply = await client.post("/policy/rollback", headers=OPERATE)
        assert (reply.status_code, reply.json()["errors"][0]["path"]) == (404, "version")
        assert (await client.post("/policy/rollback", json={"version": 99}, headers=OPERATE)).status_code == 404
