"""Real sockets: UDP in batches, TCP with its limits, one port for both."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import selectors
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import dns.asyncquery
import dns.edns
import dns.flags
import dns.message
import dns.rcode
import pytest
import uvloop

from director.core.policy import DnsName
from director.dns.datagrams import BatchedDatagrams, PlainDatagrams, batched_calls_work
from director.dns.exposition import serve_metrics
from director.dns.limits import Limits
from director.dns.metrics import Counters
from director.dns.server import Responder, serve_dns
from director.dns.streams import Streams
from tests.dns.fakes import APEX, MODEL, FakeView, plan, policy, zone
from tests.dns.test_names import data

CHAT = f"chat.eu.{APEX}"
HOST = "127.0.0.1"
Start = Callable[..., Awaitable[Responder]]


@pytest.fixture(params=[asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy], ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """The loop of the standard library, and the one that serves."""
    policy: asyncio.AbstractEventLoopPolicy = request.param()
    return policy


@pytest.fixture
async def start(view: FakeView) -> AsyncIterator[Start]:
    running: list[Responder] = []

    async def start(host: str = HOST, **limits: object) -> Responder:
        responder = await serve_dns(view, host, 0, nsid=b"replica-1", limits=Limits(**limits))  # type: ignore[arg-type]
        running.append(responder)
        return responder

    yield start
    for responder in running:
        await responder.stop()


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


def framed(*messages: bytes) -> bytes:
    return b"".join(len(m).to_bytes(2, "big") + m for m in messages)


async def read_message(reader: asyncio.StreamReader) -> dns.message.Message:
    async with asyncio.timeout(5):
        length = int.from_bytes(await reader.readexactly(2), "big")
        return dns.message.from_wire(await reader.readexactly(length))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::"])
async def test_udp_and_tcp_answer_on_one_port(start: Start, host: str) -> None:
    """Both transports, on one address and on all; the answer comes from the address that was asked."""
    responder = await start(host)
    # 127.0.0.3 is ours too: from a socket bound to all, the kernel would answer as 127.0.0.1 if left alone.
    where = {"0.0.0.0": "127.0.0.3", "::": "::1"}.get(host, host)
    query = dns.message.make_query(CHAT, "A")
    udp = await dns.asyncquery.udp(query, where, port=responder.port, timeout=5)
    tcp = await dns.asyncquery.tcp(query, where, port=responder.port, timeout=5)
    assert data(udp)
    assert data(udp) == data(tcp)


async def test_many_queries_at_once_are_all_answered(start: Start) -> None:
    """More than a batch: each gets its own answer."""
    responder = await start(responses_per_s=0)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect((HOST, responder.port))
        queries = {i: dns.message.make_query(CHAT if i % 2 else f"n{i}.{APEX}", "A", id=i) for i in range(200)}
        for query in queries.values():
            sock.send(query.to_wire())
        for _ in range(200):
            async with asyncio.timeout(5):
                message = dns.message.from_wire(await loop.sock_recv(sock, 2048))
            query = queries.pop(message.id)
            assert query.is_response(message)
            assert message.rcode() == (dns.rcode.NOERROR if message.id % 2 else dns.rcode.NXDOMAIN)
    assert sum(responder.answers().values()) == 200
    assert sum(responder.counters.latency_counts) == 200


@pytest.mark.parametrize("kind", [PlainDatagrams, BatchedDatagrams])
def test_both_ways_to_use_a_socket_do_the_same(kind: type[PlainDatagrams | BatchedDatagrams]) -> None:
    """One call for each message, or for each batch: the same messages, sources and answers."""
    if kind is BatchedDatagrams and not batched_calls_work():
        pytest.skip("not 64-bit Linux")
    seen: list[tuple[bytes, bytes, bool]] = []

    def fast(message: bytes, source: bytes) -> bytes | None:
        return {b"f": b"fast", b"l": b""}.get(message[:1])

    def complete(message: bytes, source: bytes, counted: bool) -> bytes | None:
        seen.append((message, source, counted))
        return None if message[:1] == b"s" else b"complete"

    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.bind((HOST, 0))
        server.setblocking(False)
        client.settimeout(5)
        client.connect(server.getsockname())
        for message in (b"f1", b"c2", b"s3", b"l4", b"x" * 3000):
            client.send(message)
        port = kind(server)
        handled = 0
        while handled < 5:
            handled += port.exchange(fast, complete) or 0
            if kind is PlainDatagrams:
                break
        source = socket.inet_aton(HOST)
        assert seen[:3] == [(b"c2", source, False), (b"s3", source, False), (b"l4", source, True)]
        assert [client.recv(100) for _ in range(3)] == [b"fast", b"complete", b"complete"]


async def test_a_busy_port_is_one_clear_error(start: Start, view: FakeView) -> None:
    """Which protocol, which address, which port."""
    responder = await start()
    with pytest.raises(OSError, match=rf"DNS cannot listen on 127\.0\.0\.1 port {responder.port}/TCP: Address already"):
        await serve_dns(view, HOST, responder.port)


async def test_stopping_gives_the_port_back(start: Start, view: FakeView) -> None:
    """A second responder can have it at once, and the first counted its demand."""
    responder = await start()
    query = dns.message.make_query(CHAT, "A")
    await dns.asyncquery.udp(query, HOST, port=responder.port, timeout=5)
    await responder.stop()
    again = await serve_dns(view, HOST, responder.port)
    await again.stop()
    assert sum(view.demand.values()) == 1


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_plan_swap_loses_no_answer(view: FakeView, workers: int) -> None:
    """Every query sent after a change of plan is answered from the new one, whichever worker the kernel gives it to."""
    limits = Limits(responses_per_s=0)
    running = [await serve_dns(view, HOST, 0, limits=limits, workers=workers)]
    port = running[0].port
    running += [await serve_dns(view, HOST, port, limits=limits, workers=workers) for _ in range(workers - 1)]
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as sockets:
        # Each is another client to the kernel: sixteen all but surely reach both workers.
        clients = [sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(16)]
        for sock in clients:
            sock.setblocking(False)
            sock.connect((HOST, port))
        for epoch in range(20):
            lost = epoch % 2
            view.swap(plan(epoch=2000 + epoch, down=("eu-west-1",) if lost else ()))
            for sock in clients:
                for i in range(5):
                    sock.send(dns.message.make_query(CHAT, "A", id=i).to_wire())
            for sock in clients:
                got = set()
                for _ in range(5):
                    async with asyncio.timeout(5):
                        message = dns.message.from_wire(await loop.sock_recv(sock, 2048))
                    got.add(message.id)
                    assert data(message) == ["192.0.2.20"] or (data(message) == ["192.0.2.10"] and not lost)
                assert got == set(range(5))
    served = [sum(responder.answers().values()) for responder in running]
    for responder in running:
        await responder.stop()
    assert all(served)
    assert sum(served) == 20 * 16 * 5


async def test_a_flood_is_limited_with_slip_and_a_cookie_lifts_the_limit(start: Start) -> None:
    """Over the limit every second answer is an empty TC no larger than needed, the rest silence."""
    responder = await start(responses_per_s=10, slip=2)
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect((HOST, responder.port))
        ask_cookie = dns.message.make_query(CHAT, "A", use_edns=0, options=[dns.edns.GenericOption(10, b"12345678")])
        sock.send(ask_cookie.to_wire())
        async with asyncio.timeout(5):
            first = dns.message.from_wire(await loop.sock_recv(sock, 2048))
        plain = dns.message.make_query(CHAT, "A").to_wire()
        for _ in range(200):
            sock.send(plain)
        await until(lambda: responder.counters.dropped.get("rate_limited", 0) >= 80)
        whole = cut = 0
        while whole + cut < 200 - responder.counters.dropped["rate_limited"]:
            async with asyncio.timeout(5):
                wire = await loop.sock_recv(sock, 2048)
            if dns.message.from_wire(wire).flags & dns.flags.TC:
                cut += 1
                assert len(wire) <= len(plain)
            else:
                whole += 1
        assert whole <= 20, "two seconds' worth at most"
        assert cut == responder.counters.dropped["rate_slipped"]
        shown = first.options[0]
        valid = dns.message.make_query(CHAT, "A", use_edns=0, options=[shown])
        for _ in range(50):
            sock.send(valid.to_wire())
            async with asyncio.timeout(5):
                message = dns.message.from_wire(await loop.sock_recv(sock, 2048))
            assert data(message)


async def test_two_workers_on_one_port_share_the_limit(view: FakeView) -> None:
    """Asked from many ports, which the kernel spreads over both: a network gets no more than from one process."""
    limits = Limits(responses_per_s=20, slip=0)
    first = await serve_dns(view, HOST, 0, limits=limits, workers=2)
    second = await serve_dns(view, HOST, first.port, limits=limits, workers=2)
    plain = dns.message.make_query(CHAT, "A").to_wire()
    started_s = int(time.monotonic())
    try:
        for _ in range(20):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.connect((HOST, first.port))
                for _ in range(20):
                    sock.send(plain)
            await asyncio.sleep(0)

        def handled() -> int:
            dropped = sum(one.counters.dropped.get("rate_limited", 0) for one in (first, second))
            return dropped + sum(sum(one.answers().values()) for one in (first, second))

        await until(lambda: handled() == 400)
        seconds = int(time.monotonic()) - started_s + 1
        answered = [sum(one.answers().values()) for one in (first, second)]
        assert all(answered), "the kernel gave both something"
        assert sum(answered) <= 20 * seconds
    finally:
        await first.stop()
        await second.stop()


async def test_tcp_answers_many_queries_on_one_connection(start: Start) -> None:
    """Pipelined in one segment, then split at every byte: all answered (RFC 7766, 6.2.1)."""
    responder = await start()
    reader, writer = await asyncio.open_connection(HOST, responder.port)
    queries = [dns.message.make_query(CHAT, t, id=i) for i, t in enumerate(["A", "AAAA", "TXT", "MX"] * 25)]
    writer.write(framed(*(q.to_wire() for q in queries)))
    for query in queries:
        assert query.is_response(await read_message(reader))
    for byte in framed(queries[0].to_wire()):
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(0)
    assert queries[0].is_response(await read_message(reader))
    writer.close()
    await until(lambda: responder.counters.tcp_connections == 0)


async def closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(5):
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            return True
        return True


@pytest.mark.parametrize("sent", [b"\xff\xff", b"\x00\x02ab", framed(b"\0\0\x80\0" + bytes(8))])
async def test_tcp_closes_on_what_is_no_query(start: Start, sent: bytes) -> None:
    """A message over the size limit, one too short, a response: the connection is not worth keeping."""
    responder = await start()
    reader, writer = await asyncio.open_connection(HOST, responder.port)
    writer.write(sent)
    assert await closed(reader)
    writer.close()


async def test_tcp_idle_connections_are_closed(start: Start) -> None:
    """Also one that sends a byte now and then: only whole queries are activity."""
    responder = await start(tcp_idle_s=0.2)
    idle, idle_writer = await asyncio.open_connection(HOST, responder.port)
    trickle, trickle_writer = await asyncio.open_connection(HOST, responder.port)

    async def drip() -> None:
        while not trickle_writer.is_closing():
            trickle_writer.write(b"\0")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    assert await closed(idle)
    assert await closed(trickle)
    trickle_writer.close()
    idle_writer.close()
    async with asyncio.timeout(5):
        await dripping


async def test_tcp_connections_are_limited_for_a_client_and_in_all(start: Start) -> None:
    """A client's surplus is closed at once; when all are taken the longest idle makes room."""
    responder = await start(tcp_connections_per_client_max=3)
    streams = [await asyncio.open_connection(HOST, responder.port) for _ in range(4)]
    assert await closed(streams[3][0])
    assert responder.counters.dropped["tcp_connections_per_client"] == 1
    for _, writer in streams:
        writer.close()

    small = await start(tcp_connections_max=2)
    streams = []
    for _ in range(3):
        streams.append(await asyncio.open_connection(HOST, small.port))
        await until(lambda: small.counters.tcp_accepted == len(streams))
    assert await closed(streams[0][0])
    streams[2][1].write(framed(dns.message.make_query(CHAT, "A").to_wire()))
    assert data(await read_message(streams[2][0]))
    for _, writer in streams:
        writer.close()


async def test_a_client_that_does_not_read_is_dropped(start: Start) -> None:
    """What it has not taken is bounded, and it goes when it is idle."""
    responder = await start(tcp_idle_s=0.5)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, responder.port))
        flood = framed(*[dns.message.make_query(CHAT, "TXT").to_wire()] * 50)
        deadline = time.monotonic() + 10
        while responder.counters.tcp_connections or not responder.counters.tcp_accepted:
            assert time.monotonic() < deadline
            try:
                sock.send(flood)
            except BlockingIOError:
                await asyncio.sleep(0.01)
            except ConnectionError:
                break
            await asyncio.sleep(0)
    await until(lambda: responder.counters.tcp_connections == 0)


async def test_what_a_client_leaves_unread_is_bounded(view: FakeView, start: Start) -> None:
    """Long before it is idle: who has not taken so many bytes is dropped."""
    view.policy = policy(dns={APEX: zone(names={"long": DnsName("open", MODEL, txt=("x" * 4000,) * 10)})})
    view.swap(plan())
    responder = await start(tcp_idle_s=60.0)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (HOST, responder.port))
        flood = framed(*[dns.message.make_query(f"long.{APEX}", "TXT").to_wire()] * 50)

        def dropped() -> bool:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                sock.send(flood)
            return responder.counters.dropped.get("tcp_unsent_bytes", 0) == 1

        await until(dropped)
    assert responder.counters.tcp_connections == 0


async def test_a_client_that_has_said_all_gets_all_its_answers(start: Start) -> None:
    """It closed its side behind the last query; ours is closed behind the last answer."""
    responder = await start()
    reader, writer = await asyncio.open_connection(HOST, responder.port)
    writer.write(framed(*[dns.message.make_query(CHAT, "TXT", id=i).to_wire() for i in range(100)]))
    writer.write_eof()
    assert [(await read_message(reader)).id for _ in range(100)] == list(range(100))
    assert await closed(reader)
    writer.close()


async def test_without_descriptors_connections_wait(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are accepted when there are some again, and whoever is connected is served meanwhile."""
    responder = await start()
    query = framed(dns.message.make_query(CHAT, "A").to_wire())
    before, before_writer = await asyncio.open_connection(HOST, responder.port)
    await until(lambda: responder.counters.tcp_accepted == 1)

    def none_left(_: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as exhausted:
        exhausted.setattr(socket.socket, "accept", none_left)
        waiting, waiting_writer = await asyncio.open_connection(HOST, responder.port)
        await until(lambda: responder.counters.dropped.get("tcp_accept_failed", 0) > 0)
        before_writer.write(query)
        assert data(await read_message(before))
        assert responder.counters.tcp_accepted == 1
    waiting_writer.write(query)
    assert data(await read_message(waiting))
    before_writer.close()
    waiting_writer.close()


def test_of_many_busy_connections_each_has_its_turn() -> None:
    """The selector names them in one order: those at its end must not wait for those at its beginning."""
    with socket.socket() as listener:
        streams = Streams(listener, lambda *_: None, Limits(), Counters())
        busy = [(selectors.SelectorKey(i, i, selectors.EVENT_READ, None), selectors.EVENT_READ) for i in range(50)]
        rounds = [streams._some_of(busy) for _ in range(4)]
        streams._selector.close()
    assert {key.fd for ready in rounds for key, _ in ready} == set(range(50))
    assert max(map(len, rounds)) < 20


async def test_a_flood_of_tcp_leaves_udp_its_time(start: Start) -> None:
    """While connections keep TCP busy, datagrams are answered, and quickly."""
    responder = await start(responses_per_s=0)
    flood = framed(*[dns.message.make_query(CHAT, "A").to_wire()] * 20)
    stop = asyncio.Event()

    async def hammer() -> None:
        reader, writer = await asyncio.open_connection(HOST, responder.port)
        while not stop.is_set():
            writer.write(flood)
            await writer.drain()
            await reader.read(65536)
        writer.close()

    hammers = [asyncio.create_task(hammer()) for _ in range(8)]
    waits = []
    for _ in range(30):
        started = time.monotonic()
        answer = await dns.asyncquery.udp(dns.message.make_query(CHAT, "A"), HOST, port=responder.port, timeout=5)
        waits.append(time.monotonic() - started)
        assert data(answer)
    stop.set()
    await asyncio.gather(*hammers)
    assert sorted(waits)[15] < 0.2
    assert responder.counters.dropped["tcp_paused"] > 0


async def test_a_fault_of_ours_is_servfail_and_the_next_query_is_served(
    start: Start, view: FakeView, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing escapes: one SERVFAIL, one line in the log, and on."""
    responder = await start()
    with monkeypatch.context() as broken:
        broken.setattr(responder.answerer, "_answered", lambda *_: 1 / 0)
        query = dns.message.make_query(CHAT, "A", use_edns=0)
        udp = await dns.asyncquery.udp(query, HOST, port=responder.port, timeout=5, raise_on_truncation=False)
        assert udp.rcode() == dns.rcode.SERVFAIL
        assert udp.question == query.question
        assert udp.edns == 0
        tcp = await dns.asyncquery.tcp(query, HOST, port=responder.port, timeout=5)
        assert (tcp.rcode(), tcp.question) == (dns.rcode.SERVFAIL, query.question)
    assert data(await dns.asyncquery.udp(dns.message.make_query(CHAT, "A"), HOST, port=responder.port, timeout=5))
    assert responder.counters.dropped["internal_error"] == 2


async def test_metrics_tell_what_was_answered_and_limited(start: Start) -> None:
    """By zone, type, code and transport; latency; what a limit took; over HTTP on a port of its own."""
    responder = await start(responses_per_s=3)
    for name in (CHAT, f"nobody.{APEX}", "other.org"):
        await dns.asyncquery.udp(dns.message.make_query(name, "A"), HOST, port=responder.port, timeout=5)
    await dns.asyncquery.tcp(dns.message.make_query(CHAT, "AAAA"), HOST, port=responder.port, timeout=5)
    for _ in range(3):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(dns.message.make_query(CHAT, "A").to_wire(), (HOST, responder.port))
    await until(lambda: responder.counters.dropped.get("rate_limited", 0) > 0)
    server = await serve_metrics(responder, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    pages = []
    for target in (b"/metrics", b"/other"):
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(5):
            pages.append((await reader.read()).decode())
        writer.close()
    server.close()
    await server.wait_closed()
    assert pages[1].startswith("HTTP/1.1 404")
    for line in (
        f'director_dns_answers_total{{rcode="NOERROR",transport="tcp",type="AAAA",zone="{APEX}"}} 1.0',
        f'director_dns_answers_total{{rcode="NXDOMAIN",transport="udp",type="A",zone="{APEX}"}} 1.0',
        'director_dns_answers_total{rcode="REFUSED",transport="udp",type="A",zone=""} 1.0',
        'director_dns_limited_total{why="rate_limited"}',
        "director_dns_batch_seconds_count",
        "director_dns_plan_epoch 1841.0",
    ):
        assert line in pages[0], pages[0]
