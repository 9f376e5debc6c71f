"""A small HTTP/1.1 server and client on httptools, for the fleet's own traffic.

The demo's servers and gateways answer a hundred requests a second beside the director on one machine; this keeps their
share of it small. Keep-alive both ways, bodies by Content-Length; no pipelining, no chunks, loopback only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httptools
from msgspec import Struct

REASONS = {200: "OK", 404: "Not Found", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable"}


class Request(Struct, frozen=True):
    method: str
    path: str
    body: bytes


class Response(Struct, frozen=True):
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = {}


Handler = Callable[[Request], Awaitable[Response]]


class Server:
    """Listens on one loopback port; `die` drops every connection, as a killed process would."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._connections: set[_ServerConnection] = set()
        self.port = 0

    @property
    def alive(self) -> bool:
        return self._server is not None

    async def listen(self, port: int, host: str = "127.0.0.1") -> None:
        """Raises OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, host, port, reuse_address=True)
        self.port = port or self._server.sockets[0].getsockname()[1]

    def die(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.abort()

    def _connection(self) -> _ServerConnection:
        return _ServerConnection(self._handler, self._connections)


class _ServerConnection(asyncio.Protocol):
    def __init__(self, handler: Handler, all_connections: set[_ServerConnection]) -> None:
        self._handler = handler
        self._all = all_connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._path = b""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a TCP transport is one
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def on_message_begin(self) -> None:
        self._path, self._body = b"", []

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        request = Request(method, self._path.decode("latin-1"), b"".join(self._body))
        self._task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            response = await self._handler(request)
        except ConnectionAbortedError:
            self.abort()
            return
        if self._transport is None or self._transport.is_closing():
            return
        extra = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
        head = (
            f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Unknown')}\r\n"
            f"content-type: {response.content_type}\r\ncontent-length: {len(response.body)}\r\n{extra}\r\n"
        )
        self._transport.write(head.encode("latin-1") + response.body)


class Answer(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


class Unreachable(Exception):
    """No answer: refused, broken off, or too late. `kind` is the outcome class, `connect` or `timeout`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Client:
    """Keeps idle connections by address. One request at a time on each."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[_ClientConnection]] = {}

    async def request(
        self,
        address: tuple[str, int],
        method: str,
        path: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> Answer:
        """Raises Unreachable. A kept connection that turns out closed is replaced once by a new one."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    kept = self._take_idle(address)
                    connection = kept or await self._connect(address)
                    try:
                        answer = await connection.exchange(method, address, path, body, headers or {})
                    except ConnectionError:
                        if kept is not None and not connection.began_answer:
                            continue
                        raise
                    if connection.reusable:
                        self._idle.setdefault(address, []).append(connection)
                    return answer
        except TimeoutError as error:
            raise Unreachable("timeout") from error
        except OSError as error:
            raise Unreachable("connect") from error

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _take_idle(self, address: tuple[str, int]) -> _ClientConnection | None:
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.reusable:
                return connection
        return None

    async def _connect(self, address: tuple[str, int]) -> _ClientConnection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_ClientConnection, *address)
        return connection


class _ClientConnection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._answer: asyncio.Future[Answer] | None = None
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self.began_answer = False

    @property
    def reusable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and self._answer is None

    async def exchange(
        self, method: str, address: tuple[str, int], path: str, body: bytes, headers: dict[str, str]
    ) -> Answer:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {address[0]}:{address[1]}\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
        )
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._body, self.began_answer = {}, [], False
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode("latin-1") + body)
        try:
            return await self._answer
        except BaseException:
            self.close()
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a TCP transport is one

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError())

    def data_received(self, data: bytes) -> None:
        self.began_answer = True
        try:
            if self._parser is not None:
                self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(self._parser.get_status_code(), self._headers, b"".join(self._body)))
        if not self._parser.should_keep_alive() and self._transport is not None:
            self._transport.close()
