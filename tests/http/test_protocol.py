"""Both ways on a real socket, the fast one and ASGI: order, framing, limits, slow and rude clients."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import pytest
import structlog

from director.http import app, protocol
from director.http.serve import running_http
from tests.http.fakes import FakeView

BODY = b'{"tenant":"acme","model":"llama","session":"s"}'
HEAD = b"Host: x\r\nAuthorization: Bearer decide\r\n"


def post(body: bytes = BODY, path: bytes = b"/select-region") -> bytes:
    return b"POST %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (path, HEAD, len(body), body)


def get(path: bytes, token: bytes = b"read", version: bytes = b"1.1", extra: bytes = b"") -> bytes:
    return b"GET %b HTTP/%b\r\nHost: x\r\nAuthorization: Bearer %b\r\n%b\r\n" % (path, version, token, extra)


class Connection:
    """A client that sends raw bytes and reads framed responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(30):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            status_line, *lines = head.split("\r\n")[:-2]
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(status_line.split()[1]), headers, body

    async def ended(self) -> bool:
        async with asyncio.timeout(30):
            return await self.reader.read() == b""


@pytest.fixture(params=["fast", "asgi"])
async def port(request: pytest.FixtureRequest, view: FakeView, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of a server that answers decisions in the parser's callback, or leaves all of them to ASGI."""
    if request.param == "asgi":
        monkeypatch.setattr(protocol, "is_decision_path", lambda _: False)
    async with running_http(view, "127.0.0.1", 0) as port:
        yield port


@pytest.fixture
async def connection(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Connection(reader, writer)
    writer.close()


async def test_pipelined_mixture_is_answered_in_order(connection: Connection) -> None:
    """Decisions and everything else, sent in one write, come back in the order in which they were asked."""
    await connection.send(
        get(b"/health/live") + post() + post() + get(b"/plan") + post() + get(b"/nope") + get(b"/health/live") + post()
    )
    kinds = []
    for _ in range(8):
        status, _, body = await connection.response()
        told = json.loads(body)
        kinds.append(
            "decision" if "decision_id" in told else told.get("status", status) if "epoch" not in told else "plan"
        )
    assert kinds == ["live", "decision", "decision", "plan", "decision", 404, "live", "decision"]


async def test_a_request_in_pieces(connection: Connection) -> None:
    """A request may come one byte at a time."""
    for byte in post():
        await connection.send(bytes([byte]))
    status, _, body = await connection.response()
    assert status == 200
    assert json.loads(body)["region"]


async def test_chunked_bodies(connection: Connection) -> None:
    """A chunked body is put together; a chunked one that is too large is refused before it ends."""
    chunked = b"POST /select-region HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    await connection.send(
        chunked + b"10\r\n" + BODY[:16] + b"\r\n%x\r\n" % (len(BODY) - 16) + BODY[16:] + b"\r\n0\r\n\r\n"
    )
    assert (await connection.response())[0] == 200
    await connection.send(chunked + b"20000\r\n" + b"x" * 0x20000)
    status, headers, _ = await connection.response()
    assert (status, headers["connection"]) == (413, "close")


async def test_get_with_query_on_the_wire(connection: Connection) -> None:
    """GET, HEAD and OPTIONS keep the connection usable: HEAD sends no body."""
    await connection.send(b"HEAD /select-region?tenant=acme&model=llama HTTP/1.1\r\n" + HEAD + b"\r\n")
    async with asyncio.timeout(30):
        head = await connection.reader.readuntil(b"\r\n\r\n")
    assert b"content-length: " in head.lower()
    await connection.send(get(b"/select-region?tenant=acme&model=llama", b"decide"))
    assert (await connection.response())[0] == 200
    await connection.send(b"OPTIONS /select-region HTTP/1.1\r\n" + HEAD + b"\r\n")
    status, headers, _ = await connection.response()
    assert status == 204
    assert "content-length" not in headers
    await connection.send(post())
    assert (await connection.response())[0] == 200


async def test_http_1_0_and_close(connection: Connection, port: int) -> None:
    """HTTP/1.0 and `Connection: close` end the connection after the answer."""
    await connection.send(get(b"/select-region?tenant=acme&model=llama", b"decide", version=b"1.0"))
    assert (await connection.response())[0] == 200
    assert await connection.ended()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    other = Connection(reader, writer)
    await other.send(get(b"/select-region?tenant=acme&model=llama", b"decide", extra=b"Connection: close\r\n"))
    status, headers, _ = await other.response()
    assert (status, headers["connection"]) == (200, "close")
    assert await other.ended()
    writer.close()


async def test_expect_continue(connection: Connection) -> None:
    """A client that asks before it sends its body is told to go on."""
    whole = post().replace(b"Content-Length", b"Expect: 100-continue\r\nContent-Length")
    head, _, body = whole.partition(b"\r\n\r\n")
    await connection.send(head + b"\r\n\r\n")
    async with asyncio.timeout(30):
        assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await connection.send(body)
    assert (await connection.response())[0] == 200


async def test_garbage_is_a_problem_document(connection: Connection) -> None:
    """Bytes that are no HTTP get 400 as a problem document, and the connection ends."""
    await connection.send(b"\x16\x03\x01\x02\x00 what\r\n\r\n")
    status, headers, _ = await connection.response()
    assert (status, headers["content-type"]) == (400, "application/problem+json")
    assert await connection.ended()


async def test_two_ways_of_framing_are_refused(connection: Connection) -> None:
    """Content-Length beside Transfer-Encoding is how requests are smuggled."""
    await connection.send(
        b"POST /select-region HTTP/1.1\r\n" + HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    assert (await connection.response())[0] == 400


@pytest.mark.parametrize("path", [b"/select-region", b"/plan"])
@pytest.mark.parametrize("ended", [True, False])
async def test_a_head_that_is_too_large(connection: Connection, path: bytes, ended: bool) -> None:
    """Beyond 32 KiB a head is 431, whether it ends or goes on for ever."""
    lines = b"".join(b"X-Filler-%d: %b\r\n" % (i, b"y" * 1000) for i in range(40))
    await connection.send(b"GET %b HTTP/1.1\r\n%b%b%b" % (path, HEAD, lines, b"\r\n" if ended else b""))
    status, headers, _ = await connection.response()
    assert (status, headers["connection"]) == (431, "close")


async def test_a_large_pipeline_is_not_a_large_head(connection: Connection) -> None:
    """Many small requests in one write are each within the limit."""
    await connection.send(post() * 500)
    for _ in range(500):
        assert (await connection.response())[0] == 200


async def test_slow_and_idle_connections_are_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that never ends is closed early, an idle connection late."""
    monkeypatch.setattr(protocol, "TICK_S", 0.02)
    monkeypatch.setattr(protocol, "REQUEST_S_MAX", 0.1)
    monkeypatch.setattr(protocol, "IDLE_S_MAX", 0.4)
    loop = asyncio.get_running_loop()

    async def lasted(sent: bytes, answers: int) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        one = Connection(reader, writer)
        await one.send(sent)
        for _ in range(answers):
            await one.response()
        began = loop.time()
        assert await one.ended()
        writer.close()
        return loop.time() - began

    slow_head, slow_body, idle, idle_after_asgi = await asyncio.gather(
        lasted(b"POST /select-region HTT", 0),
        lasted(post()[:-5], 0),
        lasted(post(), 1),
        lasted(get(b"/health/live"), 1),
    )
    assert slow_head < 0.35
    assert slow_body < 0.35
    assert idle > 0.35
    assert idle_after_asgi > 0.35


async def _send_until_stuck(writer: asyncio.StreamWriter) -> int:
    """Requests written until the other side has not taken any for half a second."""
    sent = 0
    try:
        while True:
            writer.write(post() * 200)
            sent += 200
            await asyncio.wait_for(writer.drain(), 0.5)
    except TimeoutError:
        return sent


async def test_a_client_that_does_not_read_is_not_read_from(port: int, view: FakeView) -> None:
    """Answers that nobody takes do not pile up: the server stops reading, and goes on when they are taken."""
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the kernel keeps megabytes of answers otherwise
    small.setblocking(False)
    await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=small, limit=2**16)
    writer.transport.set_write_buffer_limits(high=0)
    sent = await _send_until_stuck(writer)
    taken = len(view.counted)
    assert taken < sent
    one = Connection(reader, writer)
    for _ in range(taken + 100):
        assert (await one.response())[0] == 200
    writer.close()


async def test_pipelined_requests_do_not_pile_up(port: int, view: FakeView, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer lets no more be read while others wait: what waits stays within what one read brought."""
    made: list[protocol.DecisionProtocol] = []
    connected = protocol.DecisionProtocol.connection_made

    def kept(self: protocol.DecisionProtocol, transport: asyncio.Transport) -> None:
        made.append(self)
        connected(self, transport)

    monkeypatch.setattr(protocol.DecisionProtocol, "connection_made", kept)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    one, most = Connection(reader, writer), 0
    writer.write(get(b"/health/live") * 20_000)
    for _ in range(600):
        assert (await one.response())[0] == 200
        most = max(most, len(made[0].pipeline))
    writer.close()
    assert 0 < most < 6_000, "one read is a quarter of a megabyte at most"


async def test_a_busy_port_raises(port: int, view: FakeView) -> None:
    """A port that is taken is an OSError for the host process to say in one line."""
    with pytest.raises(OSError, match="in use"):
        async with running_http(view, "127.0.0.1", port):
            pass


async def test_a_failure_of_ours_is_500(connection: Connection, view: FakeView) -> None:
    """A fault of the director is neither a malformed request nor a dropped connection, remembered head or not."""
    for _ in range(3):
        await connection.send(post())
        assert (await connection.response())[0] == 200
    view.plan_age_ms = None  # type: ignore[assignment,method-assign]
    view.time_ms += 1
    for request in (post(), get(b"/select-region?tenant=acme&model=llama", b"decide"), post()):
        await connection.send(request)
        status, headers, body = await connection.response()
        assert (status, headers["content-type"]) == (500, "application/problem+json")
        assert b"NoneType" not in body


async def test_an_upgrade_is_answered_as_plain_http(connection: Connection) -> None:
    """Nobody upgrades here."""
    await connection.send(
        get(b"/select-region?tenant=acme&model=llama", b"decide", extra=b"Connection: upgrade\r\nUpgrade: h2c\r\n")
    )
    assert (await connection.response())[0] == 200


async def test_a_client_that_leaves_within_its_body_is_no_fault_of_ours(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An information line says so; no error, and no trace, is logged."""
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def keep(_logger: Any, level: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
        said.put_nowait({**event, "level": level})
        raise structlog.DropEvent

    monkeypatch.setattr(app, "log", structlog.wrap_logger(structlog.PrintLogger(), processors=[keep]))
    await connection.send(post(BODY, b"/explain").replace(b"Bearer decide", b"Bearer read")[:-10])
    connection.writer.close()
    async with asyncio.timeout(30):
        line = await said.get()
    assert line == {"level": "info", "event": "client_left", "method": "POST", "path": "/explain"}
