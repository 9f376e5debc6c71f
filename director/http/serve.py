"""The HTTP server of an api process: bind, serve until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import structlog
import uvicorn

from director.http.app import create_app
from director.http.protocol import protocol_for
from director.http.request_id import with_request_id
from director.replica.view import ReplicaView

BACKLOG = 2_048
SHUTDOWN_S_MAX = 3

log = structlog.get_logger()


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: the process that hosts it has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def running_http(
    view: ReplicaView, host: str, port: int, *, decision_log_ratio: float = 0.0
) -> AsyncIterator[int]:
    """Serve inside the block; yields the port (of use when 0 was asked for). Raises OSError when it is taken."""
    app = create_app(view, decision_log_ratio=decision_log_ratio)
    listener = _bind(host, port)
    config = uvicorn.Config(
        with_request_id(app),
        http=protocol_for(app.state.decision, app.state.http.decision_log),
        ws="none",
        loop="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        # They would rewrite the ASGI scope only, and so be believed on one of the two ways and not on the other.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=SHUTDOWN_S_MAX,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        while not server.started:
            if serving.done():
                await serving
                raise RuntimeError("the HTTP server ended before it began")
            await asyncio.sleep(0.005)
        bound_port: int = listener.getsockname()[1]
        log.info("http_listening", host=host, port=bound_port)
        yield bound_port
    finally:
        app.state.http.feed.close()
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        listener.close()


async def serve_http(view: ReplicaView, host: str, port: int, *, decision_log_ratio: float = 0.0) -> None:
    """Serve until cancelled. Raises OSError when the port is taken."""
    async with running_http(view, host, port, decision_log_ratio=decision_log_ratio):
        await asyncio.Event().wait()


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
