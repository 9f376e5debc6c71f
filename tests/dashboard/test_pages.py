"""The pages over HTTP: what they show, what they refuse, and that nothing on them is anybody's markup."""

from __future__ import annotations

import re
import time
from html import unescape

import httpx
import pytest

from director.http.dashboard.rendering import STATIC
from director.http.dashboard.session import csrf_of
from director.http.grants import SESSION_COOKIE
from director.http.replies import time_text
from director.store import events, operators, policies
from director.store.database import Database
from tests.dashboard.conftest import Serve
from tests.dashboard.worlds import LONG, PLACES, World, deployment_report, five, large, policy_of
from tests.http.fakes import FakeView
from tests.http.test_policies import YAML
from tests.store.builders import until

PAGES = ("/", "/dashboard/why", "/dashboard/timeline", "/dashboard/act", "/dashboard/policy")
EVIL = '<script>alert("x")</script>'


def words(reply: httpx.Response) -> str:
    """The text of a page, as a reader gets it."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", reply.text)).split())


def csrf(reply: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', reply.text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_stands(page: httpx.AsyncClient, path: str) -> None:
    """200, under a policy that allows our own files only, without anything inline, kept by nobody."""
    reply = await page.get(path)
    assert reply.status_code == 200, reply.text
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|https?://(?!eu-|us-|ap-)", reply.text)


@pytest.mark.parametrize("path", PAGES)
async def test_who_is_not_logged_in_is_sent_to_the_form_and_back(page: httpx.AsyncClient, path: str) -> None:
    """The address that was asked for, its state included, is where the login leads."""
    page.cookies.clear()
    wanted = f"{path}?tenant=a%20b&x=1"
    sent = await page.get(wanted)
    assert sent.status_code == 303
    form = await page.get(sent.headers["location"])
    value = re.search(r'name="form" value="([^"]+)"', form.text)
    target = re.search(r'name="next" value="([^"]+)"', form.text)
    assert value is not None
    assert target is not None
    fields = {"form": value[1], "next": unescape(target[1]), "token": "read"}
    reply = await page.post("/login", data=fields)
    assert (reply.status_code, reply.headers["location"]) == (303, wanted)


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example", "/dashboard/\nx"])
async def test_a_login_leads_nowhere_else(page: httpx.AsyncClient, target: str) -> None:
    """Only to a page of ours."""
    reply = await page.get("/login", params={"next": target})
    assert (reply.status_code, reply.headers.get("location")) == (303, "/")


async def test_a_link_in_a_chat_takes_one_step_and_no_login(page: httpx.AsyncClient) -> None:
    """A request from another site comes without our cookie; one from our own page brings it."""
    page.cookies.clear()
    step = await page.get("/login?next=%2Fdashboard%2Fwhy", headers={"Sec-Fetch-Site": "cross-site"})
    assert 'http-equiv="refresh"' in step.text
    again = unescape(re.search(r"url=([^\"]+)", step.text)[1])  # type: ignore[index]
    assert "<form" in (await page.get(again)).text
    page.cookies.set(SESSION_COOKIE, "read", domain="127.0.0.1")
    reply = await page.get(again, headers={"Sec-Fetch-Site": "same-origin"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/dashboard/why")


async def test_another_site_logs_nobody_out(page: httpx.AsyncClient) -> None:
    """A form elsewhere that posts to us changes nothing; ours does."""
    kept = await page.post("/logout", headers={"Sec-Fetch-Site": "cross-site"})
    assert (kept.status_code, kept.headers.get_list("set-cookie")) == (303, [])
    gone = await page.post("/logout", headers={"Sec-Fetch-Site": "same-origin"})
    assert "Max-Age=0" in gone.headers["set-cookie"]


async def test_a_part_that_lost_its_session_sends_the_whole_page(page: httpx.AsyncClient) -> None:
    """A login form is never put into the middle of a page."""
    page.cookies.clear()
    headers = {"HX-Request": "true", "HX-Current-URL": str(page.base_url.join("/dashboard/act?region=x"))}
    reply = await page.get("/dashboard/status", headers=headers)
    assert (reply.status_code, reply.headers["hx-redirect"]) == (401, "/login?next=%2Fdashboard%2Fact%3Fregion%3Dx")


async def test_static_files_need_no_token(page: httpx.AsyncClient) -> None:
    """Each is served with its type and kept for ever; there is no other."""
    page.cookies.clear()
    for name, kind in STATIC.items():
        reply = await page.get(f"/static/{name}")
        assert (reply.status_code, reply.headers["content-type"].partition(";")[0]) == (200, kind)
        assert "immutable" in reply.headers["cache-control"]
    for name in ("..%2Ffleet.py", "world.json", "nothing"):
        assert (await page.get(f"/static/{name}")).status_code == 404


async def test_everything_that_a_report_says_is_escaped(database: Database, serve: Serve) -> None:
    """A model, a version, an engine, a reason or a token's name that is markup is shown, never run."""
    world = await five(database, EVIL)
    await world.report("eu-west-1", deployment_report(EVIL, engine=EVIL, kv_usage=0.5))
    await operators.put(database, "us-east-1", "drain", who=EVIL, reason=EVIL)
    await world.event("note", EVIL, region="eu-west-1", model=EVIL, before=EVIL, after=EVIL)
    await world.plan()
    page = await serve(world.view)
    shown = 0
    for path in (
        f"/?open=eu-west-1,us-east-1&find={EVIL}",
        "/?open=eu-west-1,us-east-1",
        f"/dashboard/why?tenant=open&model={EVIL}&session={EVIL}&client_zone=europe",
        f"/dashboard/why?tenant={EVIL}&model={EVIL}&exclude={EVIL}&at={EVIL}",
        f"/dashboard/timeline?regions={EVIL}&until={EVIL}",
        "/dashboard/timeline",
        f"/dashboard/act?region={EVIL}&act={EVIL}&reason={EVIL}&done={EVIL}",
        f"/dashboard/act?region=eu-west-1&act=drain&reason={EVIL}",
        f"/dashboard/policy?done={EVIL}",
        f"/login?next={EVIL}",
    ):
        reply = await page.get(path)
        assert "<script>" not in reply.text, path
        shown += EVIL in words(reply)
    assert shown >= 5


async def test_the_fleet_shows_regions_and_opens_into_deployments(page: httpx.AsyncClient) -> None:
    """State, figures with units, shares; a row opens by the address into what it serves."""
    text = words(await page.get("/"))
    for wanted in ("eu-west-1 ● serving", "72 %", "640 ms", "37 %", "europe 64 %", "1 % refused"):
        assert wanted in text, wanted
    assert "qwen3-32b" not in text
    opened = words(await page.get("/?open=eu-west-1"))
    assert "llama-3.3-70b 2026-08-14" in opened
    assert "8 / 8" in opened
    assert "support-v3" in (await page.get("/?open=eu-west-1")).text


async def test_what_an_operator_set_stands_beside_what_was_observed(world: World, page: httpx.AsyncClient) -> None:
    """Draining, by whom, until when; and that the region itself is fine."""
    await operators.put(world.database, "us-east-1", "drain", who="night shift", reason="kernel", deadline_s=600)
    await world.plan()
    text = words(await page.get("/?open=us-east-1"))
    assert "▼ draining set by night shift until" in text
    assert "Observed fresh, health ok, gateway ok" in text
    assert "kernel" in text


async def test_rows_are_found_and_ordered(page: httpx.AsyncClient) -> None:
    """By name, state or model; by share."""
    found = await page.get("/?find=us-+qwen")
    assert re.findall(r'id="r-([^"]+)"', found.text) == ["us-east-1", "us-west-2"]
    ordered = await page.get("/?order=share")
    assert re.findall(r'id="r-([^"]+)"', ordered.text)[0] == "us-east-1"
    assert "Nothing fits “zzz”" in words(await page.get("/?find=zzz"))
    assert (await page.get("/?order=luck")).status_code == 400


async def test_static_and_degraded_are_said_plainly(world: World, page: httpx.AsyncClient) -> None:
    """A plan that is old says so on every page; without a database what is unknown is a dash, not a zero."""
    world.view.static = True
    text = words(await page.get("/dashboard/why"))
    assert "■ static Decisions go on from the last good plan" in text
    world.view.degraded = True
    reply = await page.get("/")
    assert "load, TTFT, errors and shares are unknown" in words(reply)
    assert "640 ms" not in reply.text
    assert "Unknown while the database is away" in words(reply)


@pytest.mark.parametrize("with_plan", [True, False])
async def test_no_region_yet(serve: Serve, with_plan: bool) -> None:
    """Before the first report the page says what to do."""
    view = FakeView(with_plan=with_plan)
    page = await serve(view)
    reply = await page.get("/")
    assert reply.status_code == 200
    assert ("No region yet" in reply.text) != with_plan
    for path in PAGES[1:]:
        assert (await page.get(path)).status_code in (200, 503)


async def test_why_explains_and_keeps_the_question_in_the_address(page: httpx.AsyncClient) -> None:
    """The pick, each candidate's terms or rejection; a typo is named; a past moment is explained by its plan."""
    asked = "/dashboard/why?tenant=acme&model=llama-3.3-70b&client_zone=europe&session=conv-1"
    reply = await page.get(asked)
    text = words(reply)
    assert re.search(r"→ eu-(west|central)-1 2026-08-14, as (home|overflow)", text)
    assert "■ residency" in text
    assert "cannot change for this request" in text
    assert 'value="conv-1"' in reply.text
    same = await page.post(
        "/explain",
        json={"tenant": "acme", "model": "llama-3.3-70b", "client_zone": "europe", "session": "conv-1"},
        headers={"Authorization": "Bearer read"},
    )
    assert f"→ {same.json()['region']} 2026-08-14" in text
    assert "client_zone: expected a client zone" in words(await page.get(asked.replace("europe", "europa")))
    assert "residency[0]" in words(await page.get(asked + "&residency=EUU"))
    assert "asked for 2099" in words(await page.get(asked + "&at=2099-01-01T00:00:00Z"))
    assert "a plan is kept" in words(await page.get(asked + "&at=1999-01-01T00:00:00Z"))
    refused = words(await page.get(asked + "&residency=DE&exclude=eu-central-1"))
    assert "no region is left" in refused


async def test_an_act_is_previewed_then_done_then_shown(world: World, page: httpx.AsyncClient) -> None:
    """Nothing happens before the confirmation; then the setting, its event, and who did it."""
    preview = await page.get("/dashboard/act?region=eu-west-1&act=drain&deadline_min=10&reason=kernel")
    text = words(preview)
    assert "of all traffic moves" in text
    assert "The planner's own step, run 60 s ahead" in text
    assert re.search(r"eu-west-1 [\d.]+ % 0.0 % ▼ −", text)
    assert await operators.list_settings(world.database) == ()
    fields = {"region": "eu-west-1", "act": "drain", "reason": "kernel", "deadline_min": "10"}
    done = await page.post("/dashboard/act", data=fields | {"csrf": csrf(preview)})
    assert done.status_code == 303
    (setting,) = await operators.list_settings(world.database)
    assert (setting.region, setting.kind, setting.who, setting.reason) == ("eu-west-1", "drain", "ops", "kernel")
    assert setting.deadline_ms is not None
    assert setting.deadline_ms - setting.set_at_ms == pytest.approx(600_000, abs=2_000)
    text = words(await page.get(done.headers["location"]))
    assert "Done: drain, eu-west-1" in text
    assert "eu-west-1 ▼ drain fresh ops" in text
    (drained,) = await events.list_events(world.database, kind="drain")
    assert re.fullmatch(r"drain until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", drained.event.after or "")
    end = {"region": "eu-west-1", "act": "undrain", "reason": "over", "csrf": csrf(preview)}
    assert (await page.post("/dashboard/act", data=end)).headers["location"].endswith("done=undrain")
    assert (await page.post("/dashboard/act", data=end)).headers["location"].endswith("done=nothing")
    assert [one.event.kind for one in await events.list_events(world.database, region="eu-west-1")][-2:] == [
        "drain",
        "undrain",
    ]


async def test_an_act_with_nonsense_is_refused(world: World, page: httpx.AsyncClient) -> None:
    """Every field that cannot be used is named; nothing is set."""
    text = words(await page.get("/dashboard/act?region=eu-west-9&act=cap&share_percent=140"))
    assert "region: expected one of" in text
    assert "did you mean 'eu-west-1'" in text
    assert "share_percent: expected a finite number, 0 or more, at most 100" in text
    assert "reason: expected a text" in text
    wish = {"region": "eu-west-1", "act": "cap", "share_percent": "-1", "reason": "x", "csrf": csrf_of("operate")}
    assert (await page.post("/dashboard/act", data=wish)).status_code == 400
    assert await operators.list_settings(world.database) == ()


@pytest.mark.parametrize("path", ["/dashboard/act", "/dashboard/policy"])
async def test_a_form_of_another_site_changes_nothing(world: World, page: httpx.AsyncClient, path: str) -> None:
    """Without this session's own form value: 403, with a page for a browser."""
    for value in ("", "0" * 40):
        fields = {"region": "eu-west-1", "act": "down", "reason": "x", "do": "apply", "pasted": YAML, "csrf": value}
        reply = await page.post(path, data=fields)
        assert reply.status_code == 403
        assert "another or none" in words(reply)
    assert await operators.list_settings(world.database) == ()
    assert await policies.current_version(world.database) == 1


async def test_who_only_reads_sees_what_would_move_and_confirms_nothing(world: World, serve: Serve) -> None:
    """The scope `operate` is asked for at the act, not at the look."""
    page = await serve(world.view)
    page.cookies.set(SESSION_COOKIE, "read", domain="127.0.0.1")
    preview = await page.get("/dashboard/act?region=eu-west-1&act=down&reason=x")
    assert "Your token reads only" in words(preview)
    fields = {"region": "eu-west-1", "act": "down", "reason": "x", "csrf": csrf(preview)}
    assert (await page.post("/dashboard/act", data=fields)).status_code == 403
    change = {"pasted": YAML, "csrf": csrf(preview)}
    assert "it is valid" in words(await page.post("/dashboard/policy", data=change))
    refused = await page.post("/dashboard/policy", data=change | {"do": "apply", "reason": "x"})
    assert (refused.status_code, await policies.current_version(world.database)) == (403, 1)


async def test_a_policy_is_checked_weighed_braked_applied_and_rolled_back(
    world: World, page: httpx.AsyncClient
) -> None:
    """A bad one is refused with its line; one that moves much needs force and a reason; the history knows who."""
    value = csrf(await page.get("/dashboard/policy"))
    bad = await page.post("/dashboard/policy", data={"csrf": value, "pasted": YAML.replace("[EU, DE]", "[EU, DX]")})
    assert bad.status_code == 422
    assert "policy.yaml:5 regions.eu-central-1.jurisdictions" in words(bad)
    form = {"csrf": value, "pasted": YAML}
    tried = await page.post("/dashboard/policy", data=form)
    text = words(tried)
    assert "it is valid" in text
    assert "Regions that go: ap-northeast-1, us-west-2" in text
    assert "Force it all the same" in text
    apply = form | {"do": "apply", "reason": "smaller"}
    braked = await page.post("/dashboard/policy", data=apply)
    assert (braked.status_code, await policies.current_version(world.database)) == (422, 1)
    assert "more than moved_share_max allows" in words(braked)
    assert "reason: expected" in words(
        await page.post("/dashboard/policy", data=apply | {"reason": "", "force": "yes"})
    )
    done = await page.post("/dashboard/policy", data=apply | {"force": "yes"})
    assert done.headers["location"] == "/dashboard/policy?done=2"
    newest = await policies.current(world.database)
    assert newest is not None
    assert (newest.who, newest.why, newest.files) == ("ops", "smaller", {"policy.yaml": YAML})
    back = await page.post("/dashboard/policy", data={"csrf": value, "version": "1"})
    assert "Version 1, again" in words(back)
    assert "Roll back to version 1" in words(back)
    gone = await page.post("/dashboard/policy", data={"csrf": value, "version": "99"})
    assert gone.status_code == 404
    fields = {"csrf": value, "version": "1", "do": "apply", "reason": "too small", "force": "yes"}
    assert (await page.post("/dashboard/policy", data=fields)).headers["location"] == "/dashboard/policy?done=3"
    newest = await policies.current(world.database)
    assert newest is not None
    assert newest.why == "back to version 1: too small"


async def test_edited_files_come_back_byte_for_byte(world: World, page: httpx.AsyncClient) -> None:
    """A text area drops one leading line break and sends CR LF: what is applied is what was shown."""
    await policies.add(world.database, {"policy.yaml": "\n" + YAML}, world.policy, "tests", "a leading line break")
    shown = await page.get("/dashboard/policy")
    area = re.search(r'name="file:policy.yaml"[^>]*>\n(.*?)</textarea>', shown.text, re.S)
    assert area is not None
    assert unescape(area[1]) == "\n" + YAML
    sent = {"csrf": csrf(shown), "file:policy.yaml": unescape(area[1]).replace("\n", "\r\n")}
    applied = await page.post("/dashboard/policy", data=sent | {"do": "apply", "reason": "x", "force": "yes"})
    assert applied.status_code == 303
    newest = await policies.current(world.database)
    assert newest is not None
    assert newest.files == {"policy.yaml": "\n" + YAML}


async def test_the_timeline_has_curves_events_and_moments(world: World, page: httpx.AsyncClient) -> None:
    """Shares add up to one where anybody reported; events are on them; a moment's plan, and two beside."""
    await world.event("shedding", "sheds 38%: offered 1.60 × capacity", region="eu-west-1", before="0%", after="38%")
    world.view.time_ms = world.time_ms + 10_000
    data = (await page.get("/dashboard/timeline/data?hours=0.25")).json()
    assert set(data["regions"]) == {name for name, *_ in PLACES}
    sums = [sum(row[i] or 0 for row in data["shares"]) for i in range(len(data["times_s"]))]
    assert {round(one, 2) for one in sums} == {0.0, 1.0}
    west = data["utilisations"][data["regions"].index("eu-west-1")]
    assert max(one for one in west if one is not None) == pytest.approx(0.715, abs=0.02)
    assert any("sheds 38%" in one["text"] for one in data["events"])
    text = words(await page.get("/dashboard/timeline?at=2099-01-01T00:00:00Z&against=2099-01-01T00:00:01Z"))
    assert "Two moments beside each other" in text
    assert "offered 1.60 × capacity" in text
    assert "a plan is kept" in words(await page.get("/dashboard/timeline?at=1999-01-01T00:00:00Z"))
    for bad in ("hours=0", "hours=x", "hours=25", "at=yesterday", "hour=3"):
        assert (await page.get(f"/dashboard/timeline?{bad}")).status_code == 400, bad


async def test_a_plan_of_a_moment_is_that_moments(world: World, page: httpx.AsyncClient) -> None:
    """What was drained later was not drained then; what differs is marked."""
    then = await world.database.now_ms()

    async def later() -> bool:
        return await world.database.now_ms() > then

    await until(later)
    await operators.put(world.database, "us-east-1", "down", who="ops", reason="x")
    await world.plan()
    reply = await page.get(
        "/dashboard/timeline", params={"at": time_text(then), "against": time_text(world.time_ms + 60_000)}
    )
    assert "Two moments" in reply.text
    assert '<td class="changed">down</td>' in reply.text


async def test_two_hundred_regions_of_fifty_models_are_quick(database: Database, serve: Serve) -> None:
    """The largest fleet: each page within seconds, on a busy machine too."""
    database.call_s_max = 20.0
    world = await large(database, 200, 50)
    page = await serve(world.view)
    await page.get("/")
    for path in ("/?open=region-003", "/dashboard/why?tenant=open&model=model-03", "/dashboard/timeline"):
        begun_s = time.perf_counter()
        reply = await page.get(path)
        assert reply.status_code == 200
        assert time.perf_counter() - begun_s < 3.0, path
    assert len(reply.content) < 1_000_000


async def test_a_name_of_any_length_fits(database: Database, serve: Serve) -> None:
    """A region of 63 and a model of 80 characters stand on every page."""
    model = "m" * 80
    world = await World.made(database, policy_of(((LONG, ("EU",), 50.0, 8.0),), (model,)))
    await world.report(LONG, deployment_report(model))
    await world.plan()
    page = await serve(world.view)
    for path in (*PAGES, f"/?open={LONG}", f"/dashboard/why?tenant=open&model={model}"):
        assert (await page.get(path)).status_code == 200, path
