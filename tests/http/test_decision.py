"""`/select-region`, the same on all of its ways."""

from __future__ import annotations

import pytest

from director.core.affinity import issue, route_mark
from director.core.plan import OperatorMark, RegionPlan
from tests.http.conftest import Asked
from tests.http.fakes import KEYRING, NOW_MS, POLICY, FakeView, deployment, plan

QUESTION = {"tenant": "acme", "model": "llama", "client_ip": "203.0.113.7", "session": "conv-81f3"}


async def test_answer_has_the_documented_shape(ask: Asked) -> None:
    """A decision names region, endpoint, version, reason, fallbacks, affinity, shares and its plan, twice over."""
    reply = await ask(json=QUESTION)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    body = reply.json()
    region = body["region"]
    assert region in ("eu-west-1", "eu-central-1")
    other = {"eu-west-1": "eu-central-1", "eu-central-1": "eu-west-1"}[region]
    assert body["endpoint"] == f"https://{region}.example.net"
    assert (body["model"], body["version"], body["reason"]) == ("llama", "2026-08-14", "home")
    assert body["fallbacks"] == [{"region": other, "endpoint": f"https://{other}.example.net"}]
    assert body["affinity"]["token"].startswith("1.k1.")
    assert body["affinity"]["expires_in_s"] == 600
    assert sum(body["shares"].values()) == pytest.approx(1.0)
    assert body["reuse_s"] == 2
    assert body["plan"] == {"epoch": 1841, "age_ms": 640, "static": False, "policy": 17}
    told = {name: value for name, value in reply.headers.items() if name.startswith("x-director-")}
    assert told == {
        "x-director-region": region,
        "x-director-endpoint": body["endpoint"],
        "x-director-version": "2026-08-14",
        "x-director-reason": "home",
        "x-director-fallbacks": f"{other}=https://{other}.example.net",
        "x-director-affinity": body["affinity"]["token"],
        "x-director-epoch": "1841",
        "x-director-static": "false",
    }


async def test_get_and_post_agree(ask: Asked) -> None:
    """The same names in the query string give the same region; lists are separated by commas."""
    full = {
        **QUESTION,
        "version": "2026-*",
        "residency": ["EU", "IE"],
        "exclude": ["eu-central-1"],
        "request_id": "r-1",
    }
    posted = await ask(json={**full, "estimated_tokens": 5200})
    query = {**full, "residency": "EU,IE", "exclude": "eu-central-1", "estimated_tokens": "5200"}
    asked = await ask("GET", query=query)
    assert posted.status == asked.status == 200
    same = ("region", "endpoint", "reason", "fallbacks", "shares", "plan")
    assert [posted.json()[name] for name in same] == [asked.json()[name] for name in same]


async def test_same_session_same_region_and_ids_are_unique(ask: Asked) -> None:
    """A session always gets the same region, each time with a decision id of its own."""
    replies = [(await ask(json=QUESTION)).json() for _ in range(5)]
    assert len({reply["region"] for reply in replies}) == 1
    assert len({reply["decision_id"] for reply in replies}) == 5


async def test_requests_without_a_key_spread(ask: Asked) -> None:
    """Without session and request id the key is random: both regions of the home get some."""
    told = {
        (await ask(json={"tenant": "acme", "model": "llama", "client_zone": "europe"})).json()["region"]
        for _ in range(60)
    }
    assert told == {"eu-west-1", "eu-central-1"}


async def test_head_is_get_without_a_body(ask: Asked) -> None:
    """HEAD has the headers of GET, and no body."""
    reply = await ask("HEAD", query=QUESTION)
    assert reply.status == 200
    assert reply.headers["x-director-reason"] == "home"
    assert reply.content == b""


async def test_options_names_the_methods(ask: Asked) -> None:
    """OPTIONS is 204 with Allow, and needs a token like everything else."""
    reply = await ask("OPTIONS")
    assert (reply.status, reply.headers["allow"]) == (204, "GET, HEAD, POST, OPTIONS")
    assert (await ask("OPTIONS", token=None)).status == 401


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_other_methods_are_refused(ask: Asked, method: str) -> None:
    """Other methods are 405 with Allow."""
    reply = await ask(method, query=QUESTION)
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD, POST, OPTIONS"
    assert reply.headers["content-type"] == "application/problem+json"


# Who may ask.


@pytest.mark.parametrize(
    ("token", "tenant", "status"),
    [
        (None, "acme", 401),
        ("nonsense", "acme", 401),
        ("read", "acme", 403),
        ("report:eu-west-1", "acme", 403),
        ("decide:acme", "globex", 403),
        ("decide:acme", "acme", 200),
        ("decide", "globex", 200),
    ],
)
async def test_scopes(ask: Asked, token: str | None, tenant: str, status: int) -> None:
    """401 without a valid token; 403 without the scope or for another tenant than the token's."""
    reply = await ask(json={**QUESTION, "tenant": tenant}, token=token)
    assert reply.status == status
    if status != 200:
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json()["status"] == status
    if status == 401:
        assert reply.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "decide"])
async def test_another_authorization_is_no_token(ask: Asked, header: str) -> None:
    """Only `Bearer TOKEN` counts."""
    assert (await ask(json=QUESTION, token=None, headers=[("Authorization", header)])).status == 401


async def test_two_authorization_headers_are_refused(ask: Asked) -> None:
    """Which of two tokens is meant is a guess, and no guess is made."""
    assert (await ask(json=QUESTION, headers=[("Authorization", "Bearer decide:acme")])).status == 401


async def test_unknown_tenant_and_model(ask: Asked) -> None:
    """A tenant that the policy does not know is 403; a model that nothing ever served is 404."""
    tenant = await ask(json={**QUESTION, "tenant": "nobody"})
    assert (tenant.status, tenant.json()["code"]) == (403, "tenant_unknown")
    model = await ask(json={**QUESTION, "model": "qwen"})
    assert (model.status, model.json()["code"]) == (404, "model_unknown")


# What is refused as malformed.

MALFORMED = [
    ({"modle": "llama"}, "modle", "model"),
    ({"tenant": ""}, "tenant", None),
    ({"tenant": 5}, "tenant", None),
    ({"model": None}, "model", None),
    ({"session": "a\u0000b"}, "session", None),
    ({"session": "x" * 513}, "session", None),
    ({"residency": "EU"}, "residency", None),
    ({"residency": ["EU", 5]}, "residency[1]", None),
    ({"residency": ["EUU"]}, "residency[0]", "EU"),
    ({"exclude": {}}, "exclude", None),
    ({"estimated_tokens": -1}, "estimated_tokens", None),
    ({"estimated_tokens": "5"}, "estimated_tokens", None),
    ({"estimated_tokens": True}, "estimated_tokens", None),
    ({"client_ip": "203.0.113.999"}, "client_ip", None),
    ({"client_zone": "europa"}, "client_zone", "europe"),
]


@pytest.mark.parametrize(
    ("change", "path", "suggestion"), MALFORMED, ids=[repr(change)[:40] for change, *_ in MALFORMED]
)
async def test_malformed_fields_are_named(
    ask: Asked, change: dict[str, object], path: str, suggestion: str | None
) -> None:
    """400 names the field's path and what was expected, with a near miss where there is one."""
    reply = await ask(json={**QUESTION, **change})
    assert reply.status == 400
    (error,) = reply.json()["errors"]
    assert error["path"] == path
    assert error["expected"]
    assert error.get("suggestion") == suggestion


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"null", b"\xff\xfe", b"{}garbage", b"[" * 60_000, b'{"tenant": "a', b'{"tenant": NaN}'],
    ids=lambda body: repr(body[:12]),
)
async def test_what_is_no_question_is_refused(ask: Asked, body: bytes) -> None:
    """Anything else than an object is 400 and never an exception."""
    reply = await ask(content=body)
    assert (reply.status, reply.json()["code"]) == (400, "malformed")


@pytest.mark.parametrize(
    "body",
    [
        b'{"tenant":"acme","model":"llama","tenant":"globex"}',
        b'{"tenant":"acme","model":"llama","estimated_tokens":1,"estimated_tokens":2,"session":"null"}',
        b'{"tenant":"acme","model":"llama","residency":["EU"],"residency":["US"]}',
        b'{"tenant":"acme","model":"llama","session":null,"session":"a"}',
        b'{"tenant":"acme","model":"llama","\\u0074enant":"globex"}',
    ],
)
async def test_a_name_given_twice_in_json_is_refused(ask: Asked, body: bytes) -> None:
    """The last of two equal names does not silently win."""
    reply = await ask(content=body)
    assert reply.status == 400
    assert "twice" in reply.json()["detail"]


async def test_a_name_given_twice_in_a_query_is_refused(ask: Asked) -> None:
    """Twice in the query, or once there and once in the body: refused, with the name."""
    twice = await ask("GET", "/select-region?tenant=acme&model=llama&tenant=globex")
    assert twice.status == 400
    assert twice.json()["errors"][0]["path"] == "tenant"
    both = await ask("POST", "/select-region?tenant=acme", json=QUESTION)
    assert both.status == 400
    assert both.json()["errors"][0]["path"] == "tenant"


async def test_query_encodings(ask: Asked) -> None:
    """Percent-encoding and + are decoded; bytes that are no UTF-8 are refused; empty values are absent."""
    reply = await ask("GET", "/select-region?tenant=acme&model=%6Clama&session=a+b%2Fc&affinity=&adapter=")
    assert reply.status == 200
    assert (await ask("GET", "/select-region?tenant=acme&model=llama&session=%FF")).status == 400
    assert (await ask("GET", "/select-region?tenant=acme&model=llama&bogus=1")).json()["errors"][0]["path"] == "bogus"


async def test_a_large_body_is_refused(ask: Asked) -> None:
    """A question has no prompt in it: beyond 64 KiB it is 413."""
    reply = await ask(content=b'{"tenant":"acme","model":"llama","session":"' + b"x" * 70_000 + b'"}')
    assert (reply.status, reply.json()["code"]) == (413, "too_large")


# When no region is left.


async def test_no_region_lists_every_reason(ask: Asked, view: FakeView) -> None:
    """503 lists each candidate with its code, and no Retry-After when no reason can pass."""
    reply = await ask(json={**QUESTION, "residency": ["US"]})
    assert reply.status == 503
    body = reply.json()
    assert {one["region"]: one["code"] for one in body["rejected"]} == dict.fromkeys(POLICY.regions, "residency")
    assert all(one["permanent"] for one in body["rejected"])
    assert "retry-after" not in reply.headers
    assert view.refused == 1


async def test_retry_after_when_a_reason_can_pass(ask: Asked, view: FakeView) -> None:
    """Where a region is only lost for the moment, Retry-After says when to ask again."""
    regions = (RegionPlan("eu-west-1", "lost"), RegionPlan("eu-central-1", "lost"), RegionPlan("us-east-1", "fresh"))
    view.serve(plan(1842, regions=regions))
    reply = await ask(json=QUESTION)
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0


async def test_no_plan_is_not_ready(ask: Asked, view: FakeView) -> None:
    """D1: with nothing stored and nothing reported, 503; never an arbitrary region."""
    view.table = None
    reply = await ask(json=QUESTION)
    assert (reply.status, reply.json()["code"]) == (503, "not_ready")
    assert reply.headers["retry-after"] == "1"


async def test_static_and_age_are_said(ask: Asked, view: FakeView) -> None:
    """An old plan still decides, and every answer says so."""
    view.static, view.age_ms = True, 65_000
    reply = await ask(json=QUESTION)
    assert reply.headers["x-director-static"] == "true"
    assert reply.json()["plan"] == {"epoch": 1841, "age_ms": 65_000, "static": True, "policy": 17}


async def test_a_new_plan_changes_the_next_answer(ask: Asked, view: FakeView) -> None:
    """Prepared bytes never outlive their plan: epoch and region are those of the plan in use."""
    assert (await ask(json=QUESTION)).json()["plan"]["epoch"] == 1841
    down = OperatorMark("down", "ops", "maintenance")
    rest = (RegionPlan("eu-central-1", "fresh"), RegionPlan("us-east-1", "fresh"))
    regions = (RegionPlan("eu-west-1", "fresh", operator=down), *rest)
    view.serve(plan(1850, regions=regions))
    reply = await ask(json=QUESTION)
    assert reply.json()["plan"]["epoch"] == 1850
    assert reply.headers["x-director-epoch"] == "1850"
    assert reply.json()["region"] == "eu-central-1"


# Affinity.


async def test_a_token_is_honoured_and_counted_as_pinned(ask: Asked, view: FakeView) -> None:
    """A presented token keeps the session in its region, and its demand counts as pinned there."""
    first = (await ask(json=QUESTION)).json()
    for session in ("a", "b", "c", "d"):
        again = await ask(json={**QUESTION, "session": session, "affinity": first["affinity"]["token"]})
        assert (again.json()["region"], again.json()["reason"]) == (first["region"], "affinity")
        assert view.counted[-1][3] == first["region"]
    assert view.counted[0][3] is None


async def test_a_forged_token_is_ignored(ask: Asked, view: FakeView) -> None:
    """Anything that we did not sign counts for nothing."""
    reply = await ask(json={**QUESTION, "affinity": "1.k1.us-east-1.zzzzzz.AAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA"})
    assert reply.json()["reason"] == "home"
    assert view.counted[-1][3] is None


async def test_affinity_never_widens_residency(ask: Asked, view: FakeView) -> None:
    """A validly signed token to a forbidden region does not lead there."""
    assert view.table is not None
    await ask(json=QUESTION)
    (route,) = (one for one in view.table.routes() if one.key.tenant == "acme")
    token = issue(KEYRING, "us-east-1", NOW_MS // 1000 + 300, route_mark(route.key))
    reply = await ask(json={**QUESTION, "affinity": token})
    assert reply.json()["region"] != "us-east-1"


# Modes of proxies.


async def test_auth_request_speaks_nginx(ask: Asked, view: FakeView) -> None:
    """NGINX knows 2xx, 401 and 403 only: 204 with the headers, or 403 with the reason in a header."""
    yes = await ask("GET", query={**QUESTION, "mode": "auth_request"})
    assert (yes.status, yes.content) == (204, b"")
    assert yes.headers["x-director-region"] in ("eu-west-1", "eu-central-1")
    cases = {
        "tenant_unknown": {"tenant": "nobody"},
        "model_unknown": {"model": "qwen"},
        "no_region": {"residency": "US"},
        "malformed": {"client_ip": "x"},
    }
    for code, change in cases.items():
        no = await ask("GET", query={**QUESTION, **change, "mode": "auth_request"})
        assert (no.status, no.headers["x-director-refusal"], no.content) == (403, code, b"")
    view.table = None
    unready = await ask("GET", query={**QUESTION, "mode": "auth_request"})
    assert (unready.status, unready.headers["x-director-refusal"]) == (403, "no_region")
    assert unready.headers["retry-after"] == "1"
    assert (await ask("GET", query={**QUESTION, "mode": "auth_request"}, token=None)).status == 401


async def test_auth_request_turns_every_refusal_into_403(ask: Asked) -> None:
    """A wrong method or a typo in the L7's own query must not become NGINX's 500 either."""
    assert (await ask("DELETE", query={**QUESTION, "mode": "auth_request"})).status == 403
    assert (await ask("GET", query={**QUESTION, "mode": "auth_request", "typo": "1"})).status == 403
    assert (await ask("GET", query={**QUESTION, "mode": "auth_request"}, token="read")).status == 403


async def test_an_unknown_mode_is_refused(ask: Asked) -> None:
    """A misspelt mode is 400 with the near miss."""
    reply = await ask("GET", query={**QUESTION, "mode": "auth_requests"})
    assert reply.status == 400
    assert reply.json()["errors"][0]["suggestion"] == "auth_request"


ENVOY = [("X-Director-Tenant", "acme"), ("X-Director-Model", "llama"), ("X-Director-Client-IP", "203.0.113.7")]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_ext_authz_keeps_the_method_and_the_path(ask: Asked, method: str) -> None:
    """Envoy appends the original path and keeps the method: 200 with the headers for each of them."""
    headers = [*ENVOY, ("X-Director-Mode", "ext_authz")]
    reply = await ask(method, "/select-region/v1/chat/completions", headers=headers, token="envoy")
    assert reply.status == 200
    assert reply.headers["x-director-region"] in ("eu-west-1", "eu-central-1")


async def test_ext_authz_refusals_are_plain(ask: Asked) -> None:
    """Envoy passes the plain statuses on."""
    headers = [("X-Director-Tenant", "nobody"), ("X-Director-Model", "llama")]
    assert (await ask("GET", "/select-region/v1/x", headers=headers, token="envoy")).status == 403


# Whose words count.


async def test_a_clients_headers_never_choose_a_tenant(ask: Asked) -> None:
    """H4: headers are ignored without `trusted_headers`, whatever they say."""
    headers = [("X-Director-Tenant", "open"), ("X-Director-Residency", "US"), ("X-Director-Exclude", "eu-west-1")]
    plain = await ask("GET", query=QUESTION)
    with_headers = await ask("GET", query=QUESTION, headers=headers)
    assert with_headers.status == 200
    assert with_headers.json()["region"] == plain.json()["region"]
    assert (await ask("GET", query={"model": "llama"}, headers=headers)).status == 400


async def test_a_clients_query_never_chooses_a_tenant_behind_envoy(ask: Asked) -> None:
    """H4: what Envoy appends, query string and body included, belongs to the client and is not looked at."""
    path = "/select-region/v1/chat?tenant=open&residency=US&mode=auth_request&tenant=globex"
    reply = await ask("POST", path, json={"tenant": "open", "junk": 1}, headers=ENVOY, token="envoy")
    assert reply.status == 200
    assert reply.json()["region"] in ("eu-west-1", "eu-central-1")
    no_headers = await ask("POST", path, json=QUESTION, token="envoy")
    assert no_headers.status == 400


async def test_trusted_headers_and_body_may_not_contradict(ask: Asked) -> None:
    """A name given in a trusted header and in the body is refused, and so is the same header twice."""
    both = await ask(json=QUESTION, headers=[("X-Director-Tenant", "acme")], token="envoy")
    assert (both.status, both.json()["errors"][0]["path"]) == (400, "tenant")
    twice = await ask("GET", headers=[*ENVOY, ("X-Director-Tenant", "open")], token="envoy")
    assert (twice.status, twice.json()["errors"][0]["path"]) == (400, "tenant")
    typo = await ask("GET", headers=[*ENVOY, ("X-Director-Residence", "EU")], token="envoy")
    assert typo.json()["errors"][0] | {"expected": ""} == {
        "path": "residence",
        "expected": "",
        "got": "an unknown field",
        "suggestion": "residency",
    }


async def test_any_path_below_is_the_same_endpoint(ask: Asked) -> None:
    """`/select-region/…` answers like `/select-region`; `/select-regions` does not exist."""
    assert (await ask("POST", "/select-region/v1/chat", json=QUESTION)).status == 200


async def test_demand_is_counted_with_its_estimate(ask: Asked, view: FakeView) -> None:
    """Each decision counts its estimated tokens, the model's mean where the request says nothing."""
    await ask(json={**QUESTION, "estimated_tokens": 5200})
    await ask(json=QUESTION)
    assert [one[2] for one in view.counted] == [5200.0, POLICY.models["llama"].estimated_tokens]


async def test_names_from_reports_cannot_break_headers(ask: Asked, view: FakeView) -> None:
    """A version with bytes that a header may not carry is percent-encoded there and untouched in the body."""
    view.serve(plan(1843, (deployment("eu-west-1", version="v1\r\nX-Evil: 1 é"),)))
    reply = await ask(json=QUESTION)
    assert reply.json()["version"] == "v1\r\nX-Evil: 1 é"
    assert reply.headers["x-director-version"] == "v1%0D%0AX-Evil: 1 %C3%A9"
    assert "x-evil" not in reply.headers


async def test_returning_sessions_do_not_fill_memory(ask: Asked, view: FakeView) -> None:
    """However many tokens come back, a route keeps a bounded number of answers, and each is still right."""
    assert view.table is not None
    await ask(json=QUESTION)
    (route,) = (one for one in view.table.routes() if one.key.tenant == "acme")
    for i in range(600):
        region = ("eu-west-1", "eu-central-1")[i % 2]
        token = issue(KEYRING, region, NOW_MS // 1000 + 100 + i, route_mark(route.key))
        reply = await ask(json={**QUESTION, "affinity": token})
        assert reply.json()["region"] == region
        assert len(route.prepared) <= len(route.answers) <= 512
