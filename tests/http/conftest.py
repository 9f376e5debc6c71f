"""Three ways to one decision endpoint: the function itself, the fast protocol on a socket, and plain ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import msgspec
import pytest
from litestar import Litestar

from director.http.app import create_app
from director.http.decision.endpoint import DecisionState, decide_http
from director.http.metrics import Counters
from director.http.serve import running_http
from tests.http.fakes import FakeView, auth


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.content)


Asked = Callable[..., Awaitable[Reply]]


class _Shown:
    """The view of the test that runs: an application takes longer to make than a test that asks it something."""

    view: FakeView

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)


_shown = _Shown()


@cache
def _app() -> Litestar:
    return create_app(_shown)  # type: ignore[arg-type]


@pytest.fixture
def view() -> FakeView:
    return FakeView()


@pytest.fixture
async def client(view: FakeView) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a real server on a port of its own."""
    async with (
        running_http(view, "127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as opened,
    ):
        yield opened


@pytest.fixture(params=["function", "protocol", "asgi"])
async def ask(request: pytest.FixtureRequest, view: FakeView) -> AsyncIterator[Asked]:
    """`await ask(method, path, query=…, json=…, content=…, headers=…, token=…)` on each of the three ways."""
    if request.param == "function":
        state = DecisionState(view, Counters())

        async def directly(
            method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes
        ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
            answer = decide_http(method.encode(), path.encode(), headers, body, state)
            return answer.status, answer.headers(), b"" if method == "HEAD" else answer.body

        yield _asking(directly)
        return

    async def over_http(
        opened: httpx.AsyncClient, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        reply = await opened.request(method, path, headers=headers, content=body)
        return reply.status_code, [(name.lower(), value) for name, value in reply.headers.raw], reply.content

    if request.param == "asgi":
        _shown.view = view
        opened = httpx.AsyncClient(transport=httpx.ASGITransport(_app()), base_url="http://test")
        async with opened:
            yield _asking(lambda *parts: over_http(opened, *parts))
        return
    async with (
        running_http(view, "127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as opened,
    ):
        yield _asking(lambda *parts: over_http(opened, *parts))


def _asking(way: Callable[..., Awaitable[tuple[int, list[tuple[bytes, bytes]], bytes]]]) -> Asked:
    async def ask(
        method: str = "POST",
        path: str = "/select-region",
        *,
        query: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes = b"",
        headers: list[tuple[str, str]] | None = None,
        token: str | None = "decide",
    ) -> Reply:
        target = path + ("?" + urlencode(query) if query else "")
        sent = [(name.lower().encode(), value.encode()) for name, value in headers or []]
        if token is not None:
            sent.append((b"authorization", auth(token)["Authorization"].encode()))
        body = content if json is None else msgspec.json.encode(json)
        status, raw, answered = await way(method, target, sent, body)
        return Reply(status, {name.decode(): value.decode() for name, value in raw}, answered)

    return ask
