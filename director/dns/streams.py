"""DNS over TCP (RFC 7766): two bytes of length before each message, many messages on a connection.

All connections hang on a selector of their own, and only that selector hangs on the event loop. So the whole of TCP
can be put off with one call when it has used its share of the time, and a flood of it does not slow UDP.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import time
from collections.abc import Callable

from director.dns.datagrams import packed_address
from director.dns.limits import Limits
from director.dns.metrics import Counters

READ_BYTES = 1024
"""One read's worth of small queries is a few milliseconds of work: nobody else waits longer for one connection."""
EVENTS_MAX = 16
ACCEPTS_MAX = 16
WINDOW_S = 0.1
SWEEP_S = 1.0
_LENGTH_BYTES = 2

Ready = tuple[selectors.SelectorKey, int]

Answer = Callable[[bytes, bytes], bytes | None]
"""A message and its source (4 or 16 bytes) → the answer; None: close, for what is no query."""


class _Connection:
    __slots__ = ("active_s", "client", "closing", "incoming", "outgoing", "sock", "source")

    def __init__(self, sock: socket.socket, source: bytes, now_s: float) -> None:
        self.sock = sock
        self.source = source
        self.client = source if len(source) == 4 else source[:8]
        self.incoming = bytearray()
        self.outgoing = b""
        self.closing = False
        self.active_s = now_s
        """When the last whole message came or the last byte of an answer left. A trickle of bytes is not activity."""


class Streams:
    """The TCP side of one port. `start` and `stop` belong to the running loop."""

    def __init__(self, listener: socket.socket, answer: Answer, limits: Limits, counters: Counters) -> None:
        self._listener = listener
        self._answer = answer
        self._limits = limits
        self._counters = counters
        self._selector = selectors.DefaultSelector()
        # Oldest activity first: whoever is active moves to the end.
        self._connections: dict[socket.socket, _Connection] = {}
        self._by_client: dict[bytes, int] = {}
        self._turn = 0
        self._window_s = 0.0
        self._spent_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._loop.add_reader(self._selector.fileno(), self._pump)
        self._timers["sweep"] = self._loop.call_later(SWEEP_S, self._sweep)

    def stop(self) -> None:
        """Close everything. Answers that a client has not yet taken are lost with its connection."""
        if self._loop is None:
            return
        self._loop.remove_reader(self._selector.fileno())
        for timer in self._timers.values():
            timer.cancel()
        for connection in tuple(self._connections.values()):
            self._close(connection)
        self._selector.close()
        self._listener.close()
        self._loop = None

    def _pump(self) -> None:
        """Serve what is ready, then say whether TCP has had its share of this tenth of a second."""
        started_s = time.monotonic()
        for key, events in self._some_of(self._selector.select(0)):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._serve(key.data, events)
        ended_s = time.monotonic()
        if ended_s - self._window_s >= WINDOW_S:
            self._window_s, self._spent_s = started_s, 0.0
        self._spent_s += ended_s - started_s
        if self._spent_s > WINDOW_S * self._limits.tcp_time_share_max:
            self._pause(self._window_s + WINDOW_S - ended_s)

    def _some_of(self, ready: list[Ready]) -> list[Ready]:
        """At most EVENTS_MAX, and others each time: the selector names them in the same order again and again."""
        if len(ready) <= EVENTS_MAX:
            return ready
        start = self._turn % len(ready)
        self._turn += EVENTS_MAX
        return (ready[start:] + ready[:start])[:EVENTS_MAX]

    def _pause(self, seconds: float) -> None:
        assert self._loop is not None
        self._counters.drop("tcp_paused")
        self._loop.remove_reader(self._selector.fileno())
        self._timers["resume"] = self._loop.call_later(max(0.0, seconds), self._resume)

    def _resume(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._selector.fileno(), self._pump)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                sock, address = self._listener.accept()
            except OSError as error:
                if not isinstance(error, BlockingIOError | InterruptedError | ConnectionAbortedError):
                    self._rest_listener()
                return
            self._counters.tcp_accepted += 1
            self._admit(sock, packed_address(address[0]))

    def _rest_listener(self) -> None:
        """Out of descriptors or memory: leave the queue alone for a while, or the loop would spin on it."""
        assert self._loop is not None
        self._counters.drop("tcp_accept_failed")
        self._selector.unregister(self._listener)
        self._timers["listen"] = self._loop.call_later(
            WINDOW_S, self._selector.register, self._listener, selectors.EVENT_READ
        )

    def _admit(self, sock: socket.socket, source: bytes) -> None:
        sock.setblocking(False)
        connection = _Connection(sock, source, time.monotonic())
        held = self._by_client.get(connection.client, 0)
        if held >= self._limits.tcp_connections_per_client_max:
            self._counters.drop("tcp_connections_per_client")
            sock.close()
            return
        if len(self._connections) >= self._limits.tcp_connections_max:
            # RFC 7766, 6.2.3: the connection that has been idle longest makes room.
            self._counters.drop("tcp_connections")
            self._close(next(iter(self._connections.values())))
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[sock] = connection
        self._by_client[connection.client] = self._by_client.get(connection.client, 0) + 1
        self._counters.tcp_connections = len(self._connections)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _serve(self, connection: _Connection, events: int) -> None:
        if connection.sock not in self._connections:
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(connection)
            elif events & selectors.EVENT_READ:
                self._read(connection)
        except OSError:
            self._close(connection)

    def _read(self, connection: _Connection) -> None:
        data = connection.sock.recv(READ_BYTES)
        if not data:
            self._close(connection)
            return
        connection.incoming += data
        answers: list[bytes] = []
        while (message := self._next_message(connection)) is not None:
            wire = self._answer(message, connection.source)
            if wire is None:
                # Nothing sensible comes from this client.
                self._close(connection)
                return
            answers.append(len(wire).to_bytes(_LENGTH_BYTES, "big") + wire)
        if answers:
            self._touch(connection)
        if answers or connection.closing:
            connection.outgoing += b"".join(answers)
            self._flush(connection)

    def _next_message(self, connection: _Connection) -> bytes | None:
        incoming = connection.incoming
        if connection.closing or len(incoming) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(incoming[:_LENGTH_BYTES], "big")
        if length > self._limits.tcp_query_bytes_max:
            self._counters.drop("tcp_query_bytes")
            connection.closing = True
            return None
        end = _LENGTH_BYTES + length
        if len(incoming) < end:
            return None
        message = bytes(incoming[_LENGTH_BYTES:end])
        del incoming[:end]
        return message

    def _flush(self, connection: _Connection) -> None:
        """Send what waits; while something does, nothing more is read: who does not take answers asks less."""
        if connection.outgoing:
            with contextlib.suppress(BlockingIOError):
                sent = connection.sock.send(connection.outgoing)
                connection.outgoing = connection.outgoing[sent:]
                self._touch(connection)
        if len(connection.outgoing) > self._limits.tcp_unsent_bytes_max:
            self._counters.drop("tcp_unsent_bytes")
            self._close(connection)
        elif connection.outgoing:
            self._selector.modify(connection.sock, selectors.EVENT_WRITE, connection)
        elif connection.closing:
            self._close(connection)
        else:
            self._selector.modify(connection.sock, selectors.EVENT_READ, connection)

    def _touch(self, connection: _Connection) -> None:
        connection.active_s = time.monotonic()
        if self._connections.pop(connection.sock, None) is not None:
            self._connections[connection.sock] = connection

    def _sweep(self) -> None:
        """Close what has been idle too long; the idle stand first."""
        assert self._loop is not None
        too_old_s = time.monotonic() - self._limits.tcp_idle_s
        for connection in tuple(self._connections.values()):
            if connection.active_s > too_old_s:
                break
            if connection.outgoing or connection.incoming:
                self._counters.drop("tcp_unfinished")
            self._close(connection)
        self._timers["sweep"] = self._loop.call_later(min(SWEEP_S, self._limits.tcp_idle_s), self._sweep)

    def _close(self, connection: _Connection) -> None:
        if self._connections.pop(connection.sock, None) is None:
            return
        left = self._by_client[connection.client] - 1
        if left:
            self._by_client[connection.client] = left
        else:
            del self._by_client[connection.client]
        self._counters.tcp_connections = len(self._connections)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.sock)
        connection.sock.close()
