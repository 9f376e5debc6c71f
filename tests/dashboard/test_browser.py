"""The dashboard in a real Chromium: it is live, it survives, its policy holds, and nothing sticks out."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect

from director.http.grants import SESSION_COOKIE
from director.http.serve import running_http
from director.store import operators
from director.store.database import Database
from tests.dashboard.conftest import Serve, context_of
from tests.dashboard.worlds import LONG, World, deployment_report, five, policy_of

pytestmark = pytest.mark.system

PAGES = (
    "/?open=eu-west-1",
    "/dashboard/why?tenant=open&model=llama-3.3-70b&client_zone=europe&session=a",
    "/dashboard/timeline?hours=0.25",
    "/dashboard/act?region=eu-west-1&act=drain&reason=kernel",
    "/dashboard/policy",
)
WAIT_MS = 15_000
expect.set_options(timeout=WAIT_MS)


@pytest.mark.parametrize(
    "looks",
    [
        {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
    ],
    ids=["desk", "phone"],
)
async def test_no_page_complains_or_sticks_out(browser: Browser, page: httpx.AsyncClient, looks: Any) -> None:
    """No error, no breach of the policy, no sideways scrolling; light and dark, at a desk and on a phone."""
    context, complaints = await context_of(browser, page, **looks)
    tab = await context.new_page()
    for path in PAGES:
        await tab.goto(path)
        if "timeline" in path:
            await expect(tab.locator("#plots")).to_have_attribute("data-drawn", "yes")
        width = await tab.evaluate("document.documentElement.scrollWidth")
        assert width <= looks["viewport"]["width"], path
        page_colour = await tab.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, page_colour[4:-1].split(", "))) < 200) == (looks["color_scheme"] == "dark")
    assert complaints == []


async def test_long_names_stay_inside(browser: Browser, database: Database, serve: Serve) -> None:
    """A region of 63 and a model of 80 characters widen no page."""
    model = "m" * 80
    world = await World.made(database, policy_of(((LONG, ("EU",), 50.0, 8.0),), (model,)))
    await world.report(LONG, deployment_report(model))
    await world.plan()
    client = await serve(world.view)
    context, complaints = await context_of(browser, client, viewport={"width": 390, "height": 844})
    tab = await context.new_page()
    for path in (f"/?open={LONG}", f"/dashboard/why?tenant=open&model={model}", "/dashboard/act"):
        await tab.goto(path)
        assert await tab.evaluate("document.documentElement.scrollWidth") <= 390, path
    assert complaints == []


async def test_the_fleet_is_live(browser: Browser, world: World, page: httpx.AsyncClient) -> None:
    """A drain shows by itself; the opened row stays open and the focus where it was."""
    context, complaints = await context_of(browser, page)
    tab = await context.new_page()
    await tab.goto("/")
    await tab.click("#r-us-east-1")
    await expect(tab.locator("table.deployments")).to_contain_text("qwen3-32b")
    assert tab.url.endswith("/?open=us-east-1")
    await tab.evaluate("window.sameDocument = true")
    await operators.put(world.database, "us-east-1", "drain", who="night shift", reason="kernel")
    await world.plan()
    row = tab.locator("tr.region", has_text="us-east-1")
    await expect(row).to_contain_text("draining")
    await expect(row).to_contain_text("set by night shift")
    await expect(tab.locator("table.deployments")).to_contain_text("qwen3-32b")
    assert await tab.evaluate("window.sameDocument") is True
    assert await tab.evaluate("document.activeElement.id") == "r-us-east-1"
    await tab.go_back()
    await expect(tab.locator("table.deployments")).to_have_count(0)
    await expect(tab.locator("header nav")).to_be_visible()
    assert complaints == []


async def test_markup_from_a_report_never_runs(browser: Browser, database: Database, serve: Serve) -> None:
    """Whatever a model is called: no script of it runs, on any page, charts included."""
    evil = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
    world = await five(database, evil)
    await world.event("note", evil, region="eu-west-1", model=evil)
    world.view.time_ms += 6_000
    client = await serve(world.view)
    context, complaints = await context_of(browser, client)
    tab = await context.new_page()
    for path in ("/?open=eu-west-1", "/dashboard/timeline?hours=0.25", "/dashboard/why?tenant=open&model=" + evil):
        await tab.goto(path)
        if "timeline" in path:
            await expect(tab.locator("#plots")).to_have_attribute("data-drawn", "yes")
        await expect(tab.locator("main")).to_contain_text("onerror")
        assert await tab.evaluate("window.hacked === undefined"), path
    # And were it to slip through, the policy stops it.
    await tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.hacked=1>')")
    await tab.evaluate("document.body.appendChild(document.createElement('script')).text = 'window.hacked=1'")
    assert await tab.evaluate("window.hacked === undefined")
    assert any("Content Security Policy" in one for one in complaints)


async def test_somebody_logs_in_drains_a_region_and_logs_out(
    browser: Browser, world: World, page: httpx.AsyncClient
) -> None:
    """The whole way by hand. Scripts never see the session."""
    context, _ = await context_of(browser, page)
    await context.clear_cookies()
    tab = await context.new_page()
    await tab.goto("/dashboard/act?region=us-west-2")
    await tab.fill("#token", "operate")
    await tab.press("#token", "Enter")
    await tab.wait_for_url("**/dashboard/act?region=us-west-2")
    cookies = {one["name"]: one for one in await context.cookies()}
    assert cookies[SESSION_COOKIE]["httpOnly"]
    assert cookies[SESSION_COOKIE]["sameSite"] == "Strict"
    assert SESSION_COOKIE not in await tab.evaluate("document.cookie")
    await tab.select_option("select[name=act]", "drain")
    await tab.fill("input[name=reason]", "kernel update")
    await tab.click("text=Show what would move")
    await expect(tab.locator("#preview")).to_have_text("Drain: us-west-2")
    await expect(tab.locator(".verdict")).to_contain_text("of all traffic moves")
    assert await operators.list_settings(world.database) == ()
    await tab.click("button.danger")
    await expect(tab.locator("[role=status].fine")).to_contain_text("Done: drain, us-west-2")
    (setting,) = await operators.list_settings(world.database)
    assert (setting.region, setting.who, setting.reason) == ("us-west-2", "ops", "kernel update")
    await tab.click("text=Log out")
    await expect(tab.locator("#token")).to_be_visible()


async def test_a_restart_is_seen_and_survived(browser: Browser, world: World) -> None:
    """While nothing answers the page says since when; afterwards it goes on by itself."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}")
    async with running_http(world.view, "127.0.0.1", port):
        context, _ = await context_of(browser, address)
        tab = await context.new_page()
        await tab.goto("/")
        await expect(tab.locator("#offline")).to_be_hidden()
    await expect(tab.locator("#offline")).to_be_visible()
    await expect(tab.locator("#offline")).to_contain_text("UTC")
    await operators.put(world.database, "us-east-1", "down", who="ops", reason="x")
    await world.plan()
    async with running_http(world.view, "127.0.0.1", port):
        await expect(tab.locator("#offline")).to_be_hidden()
        await expect(tab.locator("tr.region", has_text="us-east-1")).to_contain_text("down")
        await context.close()
    await address.aclose()


async def test_keys_reach_everything(browser: Browser, page: httpx.AsyncClient) -> None:
    """Numbers choose pages, a slash finds, the space bar opens a row; the theme is kept."""
    context, complaints = await context_of(browser, page, color_scheme="light")
    tab = await context.new_page()
    await tab.goto("/")
    await tab.keyboard.press("/")
    assert await tab.evaluate("document.activeElement.id") == "find"
    await tab.keyboard.type("us-west")
    await tab.keyboard.press("Enter")
    await tab.wait_for_url("**/?find=us-west")
    await expect(tab.locator("tr.region")).to_have_count(1)
    await tab.focus("#r-us-west-2")
    await tab.keyboard.press("Space")
    await expect(tab.locator("table.deployments")).to_be_visible()
    await tab.click("#theme")
    await tab.keyboard.press("2")
    await tab.wait_for_url("**/dashboard/why")
    assert await tab.evaluate("document.documentElement.dataset.theme") == "dark"
    await tab.keyboard.press("Tab")
    assert await tab.evaluate("document.activeElement.className") == "skip"
    assert complaints == []


async def test_a_click_on_the_timeline_chooses_a_moment(
    browser: Browser, world: World, page: httpx.AsyncClient
) -> None:
    """A click shows the plan of that moment; with shift a second one beside it."""
    world.view.time_ms = world.time_ms + 30_000
    context, complaints = await context_of(browser, page)
    tab = await context.new_page()
    await tab.goto("/dashboard/timeline?hours=0.01")
    await expect(tab.locator("#plots")).to_have_attribute("data-drawn", "yes")
    over = tab.locator("#shares .u-over")
    box = await over.bounding_box()
    assert box is not None
    await over.click(position={"x": box["width"] - 8, "y": 40})
    await tab.wait_for_url("**at=*")
    await expect(tab.locator("main")).to_contain_text("The plan at")
    await expect(tab.locator("#plots")).to_have_attribute("data-drawn", "yes")
    await tab.locator("#shares .u-over").click(position={"x": box["width"] - 20, "y": 40}, modifiers=["Shift"])
    await tab.wait_for_url("**against=*")
    await expect(tab.locator("main")).to_contain_text("Two moments beside each other")
    assert complaints == []
