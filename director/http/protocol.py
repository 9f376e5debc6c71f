"""One port, two speeds: `/select-region` is answered in the parser's callback, everything else goes to ASGI.

uvicorn's httptools protocol builds a scope, a task, an event and several awaits for each request: three quarters of a
small answer's cost. This subclass reads the head first; when the path is the decision endpoint's and no earlier answer
on the connection is outstanding, it calls `decide_http` as soon as the body is there and writes once. When an earlier
answer is outstanding (pipelining), the request takes the ASGI way, which calls the same function and keeps the order.

A request whose head was seen before is not even parsed (`director.http.heads`).

It also bounds what uvicorn leaves open: the size of a head, how many pipelined requests wait for their answers, and how
long an unfinished request or an idle connection may stay. One timer per connection looks every few seconds; a timer per
request would cost more than the decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from time import perf_counter_ns
from typing import Any

import structlog
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from director.http.decision.answer import Answer, problem_answer
from director.http.decision.endpoint import DecisionState, decide_http, is_decision_path, too_large
from director.http.decision.log import DecisionLog
from director.http.decision.question import BODY_BYTES_MAX
from director.http.heads import HeadMemo, rest_of
from director.http.problem import FAILED, Problem

HEAD_BYTES_MAX = 32 * 1024
TIMED_EVERY = 64
"""Reading the clock twice costs a hundredth of a decision; a sample tells as much as all of them."""
TICK_S = 5.0
REQUEST_S_MAX = 20.0
"""A request that is not complete by then is not coming: its sender is slow on purpose, or gone."""
IDLE_S_MAX = 75.0
"""Longer than a proxy keeps its own idle connections (NGINX: 60 s): the proxy closes first, and no request is lost."""

log = structlog.get_logger()


class PipelineFlow(FlowControl):
    """Reads nothing more while requests that were read wait for their turn.

    uvicorn reads on after each answer, and a read holds hundreds of requests: those that wait would grow without end.
    Nobody starves: only the last request read can be incomplete, and once it is no longer waiting reading goes on.
    """

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


class DecisionProtocol(HttpToolsProtocol):
    """One connection. `state` and `heads` are set by `protocol_for`."""

    state: DecisionState
    heads: HeadMemo

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deciding = False
        self._body = b""
        self._receiving = False
        """A request has begun and is not complete."""
        self._in_head = False
        self._head_bytes = 0
        self._requests = 0
        self._requests_at_tick = -1
        self._quiet_ticks = 0
        self._watch: asyncio.TimerHandle | None = None
        self._rest = b""
        """The last plain head, without its first line: remembered when it comes a second time."""
        self._default_lines = b""
        self._default_headers: list[tuple[bytes, bytes]] = []

    # The connection.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = PipelineFlow(transport, self.pipeline)
        self._watch = self.loop.call_later(TICK_S, self._tick)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def _tick(self) -> None:
        """Close a connection on which nothing was completed for too long."""
        if self.transport.is_closing():
            return
        self._watch = self.loop.call_later(TICK_S, self._tick)
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._requests != self._requests_at_tick or (answering and not self._receiving):
            self._requests_at_tick = self._requests
            self._quiet_ticks = 0
            return
        self._quiet_ticks += 1
        if self._quiet_ticks * TICK_S >= (REQUEST_S_MAX if self._receiving else IDLE_S_MAX):
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._receiving or not (self.cycle is None or self.cycle.response_complete):
            self._parse(data)
            return
        # Between two messages: these bytes begin a request.
        framed = self.heads.frame(data)
        if framed is None:
            began = self._requests
            self._parse(data)
            if self._requests == began + 1 and not self._receiving and not self.transport.is_closing():
                self._learn(data)
            return
        self._unset_keepalive_if_required()
        self._requests += 1
        answer = self._decide(framed.method, framed.target, framed.headers, framed.body)
        self._write(answer, keep_alive=True, with_body=True)

    def _parse(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse_head()

    def _learn(self, data: bytes) -> None:
        """Remember the head of the request that `data` was, if the one before it was the same."""
        if not is_decision_path(self.url):
            return
        rest = rest_of(data, self.headers, len(self._body))
        if rest is not None and rest == self._rest:
            self.heads.learn(rest, self.headers, len(self._body))
        self._rest = rest or b""

    def pause_writing(self) -> None:
        """A client that does not read its answers is not read from: its requests would pile up as answers."""
        super().pause_writing()
        self.flow.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        detail = "the bytes are no HTTP request"
        self._write(problem_answer(Problem(400, "malformed", detail), "decision"), keep_alive=False, with_body=True)

    # The parser's callbacks.

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._deciding = False
        self._receiving = True
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._head_bytes > HEAD_BYTES_MAX and self._head_size() > HEAD_BYTES_MAX:
            self._refuse_head()
            return
        self._head_bytes = 0
        if is_decision_path(self.url) and (self.cycle is None or self.cycle.response_complete):
            self._deciding = True
            self._body = b""
            if self.expect_100_continue:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._deciding:
            if len(self._body) + len(body) > BODY_BYTES_MAX:
                self._deciding = False
                self._write(problem_answer(too_large(), "decision"), keep_alive=False, with_body=True)
                return
            self._body += body
        elif not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._receiving = False
        self._requests += 1
        if self._deciding:
            self._deciding = False
            method: bytes = self.parser.get_method()
            answer = self._decide(method, self.url, self.headers, self._body)
            keep_alive = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
            self._write(answer, keep_alive=keep_alive, with_body=method != b"HEAD")
        elif not self.transport.is_closing():
            super().on_message_complete()

    # Answers.

    def _decide(self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
        """The endpoint's answer. One request in `TIMED_EVERY` is timed."""
        self.server_state.total_requests += 1
        began_ns = 0 if self.server_state.total_requests % TIMED_EVERY else perf_counter_ns()
        try:
            answer = decide_http(method, target, headers, body, self.state)
        except Exception:
            # Ours, not the client's: the parser would call it a malformed request.
            log.exception("decision_failed")
            return problem_answer(FAILED, "decision")
        if began_ns:
            self.state.counters.decided_in(perf_counter_ns() - began_ns)
        return answer

    def _write(self, answer: Answer, *, keep_alive: bool, with_body: bool) -> None:
        if self.transport.is_closing():
            return
        body = answer.body
        self.transport.write(
            b"".join(
                (
                    STATUS_LINE[answer.status],
                    self._common_lines(),
                    answer.head,
                    b"" if answer.status == 204 else b"Content-Length: %d\r\n" % len(body),
                    b"\r\n" if keep_alive else b"Connection: close\r\n\r\n",
                    body if with_body else b"",
                )
            )
        )
        if not keep_alive:
            self.transport.close()

    def _common_lines(self) -> bytes:
        """The server's own headers (Date), joined once a second: the server replaces the list when the date moves."""
        headers = self.server_state.default_headers
        if headers is not self._default_headers:
            self._default_headers = headers
            self._default_lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        return self._default_lines

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse_head(self) -> None:
        detail = f"the request's head is larger than {HEAD_BYTES_MAX} bytes"
        self._write(problem_answer(Problem(431, "too_large", detail), "decision"), keep_alive=False, with_body=True)


def protocol_for(state: DecisionState, decision_log: DecisionLog | None = None) -> type[DecisionProtocol]:
    """The protocol class of one server: uvicorn makes its instances, so the state hangs on the class."""

    class BoundProtocol(DecisionProtocol):
        pass

    BoundProtocol.state = state
    BoundProtocol.heads = HeadMemo()
    return BoundProtocol if decision_log is None else _logging(BoundProtocol, decision_log)


def _logging(protocol: type[DecisionProtocol], decision_log: DecisionLog) -> type[DecisionProtocol]:
    """The same with a decision log: a class of its own, so that one without costs nothing."""

    class LoggingProtocol(protocol):  # type: ignore[misc, valid-type]
        def _decide(self, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
            answer: Answer = super()._decide(method, target, headers, body)
            decision_log.take(target, headers, body, answer)
            return answer

    return LoggingProtocol
