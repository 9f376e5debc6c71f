"""Real servers on loopback, for what only a network can do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from director.demo.wire import Handler, Request, Response, Server


@asynccontextmanager
async def serving(handler: Handler, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """The base URL of a server that answers with `handler`."""
    server = Server(handler)
    await server.listen(0, host)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.die()


def saying(text: str, status: int = 200) -> Handler:
    async def handler(_request: Request) -> Response:
        return Response(status, text.encode(), "text/plain")

    return handler


async def hanging(_request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def until(condition: Callable[[], object], within_s: float = 30.0) -> None:
    """Polls; fails when the condition does not come true in time."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "the condition did not come true in time"
        await asyncio.sleep(0.01)
