"""Pages as a client gets them, and a real Chromium to look at them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, async_playwright

from director.http.grants import SESSION_COOKIE
from director.http.serve import running_http
from director.store.database import Database
from tests.dashboard.worlds import World, five

CHROMIUM_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

Serve = Callable[[Any], Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(view)`: a client of a server of that view, logged in with the token `operate`."""
    async with AsyncExitStack() as stack:

        async def serving(view: Any) -> httpx.AsyncClient:
            port = await stack.enter_async_context(running_http(view, "127.0.0.1", 0))
            client = httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers={"Accept": "text/html"}, timeout=20.0
            )
            client.cookies.set(SESSION_COOKIE, "operate", domain="127.0.0.1")
            return await stack.enter_async_context(client)

        yield serving


@pytest.fixture
async def world(database: Database) -> World:
    """The example fleet."""
    return await five(database)


@pytest.fixture
async def page(world: World, serve: Serve) -> httpx.AsyncClient:
    """A logged-in client of the example fleet."""
    return await serve(world.view)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium. It is a system program, like nginx: nothing is downloaded."""
    path = shutil.which("chromium")
    assert path is not None, "chromium is missing: scripts/system-packages.sh installs it"
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield opened
        await opened.close()


class Complaints(list[str]):
    """What a page's scripts and its policy complained of."""


async def context_of(browser: Browser, client: httpx.AsyncClient, **looks: Any) -> tuple[BrowserContext, Complaints]:
    """A browser window logged in like the client, and the list that its pages complain into."""
    context = await browser.new_context(base_url=str(client.base_url), **looks)
    await context.add_cookies([{"name": SESSION_COOKIE, "value": "operate", "url": str(client.base_url)}])
    complaints = Complaints()
    context.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    return context, complaints
