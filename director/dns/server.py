"""The responder as a whole: UDP and TCP on one port, a new plan by one reference, counters.

    responder = await serve_dns(view, "0.0.0.0", 8053)
    …
    await responder.stop()

Everything runs on the loop that started it; nothing waits for a database or a network.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import Sequence

import structlog

from director.dns.answer import Answerer, servfail
from director.dns.body import truncated
from director.dns.book import AnswerBook
from director.dns.cookies import STEP_S
from director.dns.datagrams import BATCH, Datagrams, datagrams
from director.dns.fast import Askers, FastAnswer, fast_path
from director.dns.limits import Limits, RateLimiter
from director.dns.metrics import Counters, Kind, Transport
from director.dns.streams import Streams
from director.dns.view import DnsView
from director.dns.wire import HEADER_BYTES, Rcode

log = structlog.get_logger(__name__)

BATCHES_MAX = 4
"""Batches for one wake-up: then the loop looks after everyone else."""
TIDY_S = 0.25
"""How often demand is passed on and a new plan is looked for when no query comes."""
RECEIVE_BUFFER_BYTES = 4 << 20
COMPLAINT_S = 10.0
"""One line for each span, not one for each query of a flood."""
PORT_ATTEMPTS = 20


def _nothing_remembered(data: bytes, source: bytes) -> bytes | None:
    return None


class Responder:
    """One process's DNS side. Made by `serve_dns`."""

    def __init__(self, view: DnsView, *, nsid: bytes = b"", limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.answerer = Answerer(view, nsid=nsid, tcp_idle_s=self.limits.tcp_idle_s)
        self.counters: Counters = self.answerer.counters
        self.port = 0
        self._view = view
        self._limiter = RateLimiter(self.limits)
        self._askers = Askers()
        self._book: AnswerBook | None = None
        self._fast: FastAnswer = _nothing_remembered
        self._cookie_step = 0
        self._complained_s = -COMPLAINT_S
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sockets: list[socket.socket] = []
        self._streams: list[Streams] = []
        self._tidy_timer: asyncio.TimerHandle | None = None

    def start(self, host: str, port: int, *, reuse_port: bool = False) -> None:
        """Bind and serve on the running loop. Raises OSError, which says what could not be bound."""
        self._loop = asyncio.get_running_loop()
        pairs, self.port = bind(host, port, reuse_port=reuse_port)
        for udp, tcp in pairs:
            self._sockets.append(udp)
            self._loop.add_reader(udp.fileno(), self._on_datagrams, datagrams(udp))
            streams = Streams(tcp, self._answer_stream, self.limits, self.counters)
            streams.start()
            self._streams.append(streams)
        self._tidy()

    async def stop(self) -> None:
        """Stop answering and give the port back; the last demand is passed on."""
        if self._loop is None:
            return
        if self._tidy_timer is not None:
            self._tidy_timer.cancel()
        for udp in self._sockets:
            self._loop.remove_reader(udp.fileno())
            udp.close()
        for streams in self._streams:
            streams.stop()
        self._sockets, self._streams, self._loop = [], [], None
        self._send_demand()

    def answers(self) -> dict[tuple[Kind, Transport], int]:
        """Answers since start by zone, type, response code and transport."""
        book = self.answerer.book
        return self.counters.totals(list(book.tallies.values()) if book is not None else [])

    def prepare(self, now_s: float) -> FastAnswer:
        """What to answer this batch with: one look at the view for all of it."""
        book = self.answerer.refresh()
        self._limiter.tick(int(now_s))
        cookie_step = self._view.now_ms() // (STEP_S * 1000)
        if cookie_step != self._cookie_step:
            self._cookie_step = cookie_step
            self._askers.forget_cookies()
        if book is not self._book:
            if book is None or self._book is None or book.networks is not self._book.networks:
                self._askers.clear()
            elif book.table.keyring is not self._book.table.keyring:
                self._askers.forget_cookies()
            if book is not None and book.tree.unusable and (self._book is None or book.tree is not self._book.tree):
                log.warning("dns_policy_unusable", names=book.tree.unusable)
            self._book = book
            self._fast = _nothing_remembered if book is None else fast_path(book, self._askers, self._limiter)
        return self._fast

    def _on_datagrams(self, port: Datagrams) -> None:
        started_s = time.monotonic()
        fast = self.prepare(started_s)
        for _ in range(BATCHES_MAX):
            count = port.exchange(fast, self.complete)
            if count:
                self.counters.observe(count, time.monotonic() - started_s)
            if count < BATCH:
                return

    def complete(self, data: bytes, source: bytes, counted: bool) -> bytes | None:
        """A datagram that the hot path of `prepare` left. `counted`: the rate limit has seen it, and it is over."""
        if not counted and data[10:12] == b"\0\0":
            # No EDNS, so no cookie: whether it is over the limit can be known without working out an answer.
            if self._limiter.over(source):
                if not self._limiter.slips(source):
                    self.counters.drop("rate_limited")
                    return None
                counted = True
            else:
                return self._complete(data, source, free=True)
        return self._complete(data, source, over=counted)

    def _complete(self, data: bytes, source: bytes, *, over: bool = False, free: bool = False) -> bytes | None:
        """`over`: known to be over the limit. `free`: known to be under it."""
        try:
            answer = self.answerer.answer(data, source, "udp", refresh=False)
        except Exception:
            return self._failed(data, "udp")
        if answer is None:
            self.counters.drop("not_a_query")
            return None
        if answer.reply is not None and answer.tally is not None:
            self._askers.remember(data, len(answer.question), source, answer.reply)
        if not free and not answer.cookie_valid and (over or self._limiter.over(source)):
            if not self._limiter.slips(source):
                self.counters.drop("rate_limited")
                return None
            self.counters.drop("rate_slipped")
            return truncated(answer.wire, answer.question, answer.opt)
        if answer.tally is not None:
            answer.tally.udp += 1
        else:
            self.counters.error(answer.rcode, "udp")
        return answer.wire

    def _answer_stream(self, data: bytes, source: bytes) -> bytes | None:
        self.prepare(time.monotonic())
        try:
            answer = self.answerer.answer(data, source, "tcp", refresh=False)
        except Exception:
            return self._failed(data, "tcp")
        if answer is None:
            self.counters.drop("not_a_query")
            return None
        if answer.tally is not None:
            answer.tally.tcp += 1
        else:
            self.counters.error(answer.rcode, "tcp")
        return answer.wire

    def _failed(self, data: bytes, transport: Transport) -> bytes | None:
        """A fault of ours: the asker gets SERVFAIL, the operator a line, and the next query is served."""
        self.counters.error(Rcode.SERVFAIL, transport)
        self.counters.drop("internal_error", 1)
        now_s = time.monotonic()
        if now_s - self._complained_s >= COMPLAINT_S:
            self._complained_s = now_s
            log.exception("dns_answer_failed", query=data[:512].hex(), transport=transport)
        if len(data) < HEADER_BYTES:
            return None
        return servfail(data)

    def _tidy(self) -> None:
        self.prepare(time.monotonic())
        self._send_demand()
        if self._loop is not None:
            self._tidy_timer = self._loop.call_later(TIDY_S, self._tidy)

    def _send_demand(self) -> None:
        if self.answerer.book is not None:
            self.answerer.send_demand(self.answerer.book)


async def serve_dns(
    view: DnsView,
    host: str,
    port: int,
    *,
    nsid: bytes = b"",
    limits: Limits | None = None,
    workers: int = 1,
) -> Responder:
    """Serve DNS from a view on every address of `host` ("" is all), UDP and TCP. Port 0 takes a free one.

    `workers`: how many processes share the port. The kernel spreads clients over them, and each has its part of the
    response limit. Raises OSError.
    """
    responder = Responder(view, nsid=nsid, limits=(limits or Limits()).for_each_of(workers))
    responder.start(host, port, reuse_port=workers > 1)
    return responder


def bind(host: str, port: int, *, reuse_port: bool = False) -> tuple[list[tuple[socket.socket, socket.socket]], int]:
    """A (UDP, TCP) pair of sockets for each address of a host, all on one port. Raises OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((family, address[0]) for family, _, _, _, address in found))
    for attempt in range(PORT_ATTEMPTS):
        try:
            return _bind_all(addresses, port, reuse_port=reuse_port)
        except OSError as error:
            # A free port was asked for, and it is free for one protocol only: another.
            if port or error.errno != errno.EADDRINUSE or attempt == PORT_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _bind_all(
    addresses: Sequence[tuple[int, str | int]], port: int, *, reuse_port: bool
) -> tuple[list[tuple[socket.socket, socket.socket]], int]:
    pairs: list[tuple[socket.socket, socket.socket]] = []
    with contextlib.ExitStack() as undo:
        for family, address in addresses:
            tcp = _bound(family, socket.SOCK_STREAM, str(address), port, reuse_port=reuse_port)
            undo.callback(tcp.close)
            port = port or tcp.getsockname()[1]
            udp = _bound(family, socket.SOCK_DGRAM, str(address), port, reuse_port=reuse_port)
            undo.callback(udp.close)
            tcp.listen(512)
            pairs.append((udp, tcp))
        undo.pop_all()
    return pairs, port


def _bound(family: int, kind: int, address: str, port: int, *, reuse_port: bool) -> socket.socket:
    sock = socket.socket(family, kind)
    try:
        sock.setblocking(False)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        else:
            _prepare_datagram_socket(sock, family)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        protocol = "TCP" if kind == socket.SOCK_STREAM else "UDP"
        raise OSError(error.errno, f"DNS cannot listen on {address} port {port}/{protocol}: {error.strerror}") from None
    return sock


def _prepare_datagram_socket(sock: socket.socket, family: int) -> None:
    """A larger receive buffer for bursts; no path-MTU state, which forged ICMP could shrink (as BIND and NSD do)."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    level, mtu_discover = (socket.IPPROTO_IP, 10) if family == socket.AF_INET else (socket.IPPROTO_IPV6, 23)
    omit = 5
    with contextlib.suppress(OSError):
        sock.setsockopt(level, mtu_discover, omit)
