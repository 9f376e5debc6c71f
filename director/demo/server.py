"""One model server: an engine behind HTTP, which exposes what its kind of engine exposes."""

from __future__ import annotations

import asyncio
import time

import msgspec
from msgspec import Struct

from director.demo.dumps import engine_dump
from director.demo.engine import BatchingEngine, Job
from director.demo.layout import SERVED_NAMES, SPEEDS, Pool
from director.demo.wire import Request, Response, Server

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Completion(Struct, frozen=True):
    """What the demo's clients send. A prompt is given by its length: nobody here reads it."""

    model: str
    version: str
    prompt_tokens: int
    max_tokens: int
    adapter: str | None = None


class Usage(Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    ttft_ms: float | None = None


class ModelServer:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._server = Server(self._handle)
        self.engine = self._new_engine()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def alive(self) -> bool:
        return self._server.alive

    async def start(self, port: int) -> None:
        """A new process: an empty engine, whose counters begin at 0. Raises OSError when the port is taken."""
        self.engine = self._new_engine()
        await self._server.listen(port)

    def die(self) -> None:
        """As by SIGKILL: connections break, requests in flight are lost."""
        self._server.die()
        self.engine.fail_all()

    def advance(self) -> None:
        self.engine.advance(time.monotonic())

    def _new_engine(self) -> BatchingEngine:
        return BatchingEngine(SPEEDS[self.pool.model], time.monotonic(), time.time())

    async def _handle(self, request: Request) -> Response:
        if request.path == "/metrics":
            self.advance()
            dump = engine_dump(self.engine, self.pool.dialect, SERVED_NAMES[self.pool.model])
            return Response(200, dump.encode(), METRICS_TYPE)
        if request.path == "/v1/completions" and request.method == "POST":
            return await self._complete(request.body)
        return Response(200 if request.path == "/health" else 404)

    async def _complete(self, body: bytes) -> Response:
        asked = msgspec.json.decode(body, type=Completion)
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        job = Job(asked.prompt_tokens, max(1, asked.max_tokens), lambda served: _settle(ended, served), asked.adapter)
        if not self.engine.submit(job, time.monotonic()):
            return Response(503, b'{"error":"queue full"}', headers={"retry-after": "2"})
        try:
            served = await ended
        except asyncio.CancelledError:
            self.engine.abort(job)
            raise
        if not served:
            raise ConnectionAbortedError
        ttft_ms = None if job.first_token_s is None else (job.first_token_s - job.arrived_s) * 1000.0
        return Response(200, msgspec.json.encode(Usage(asked.prompt_tokens, asked.max_tokens, ttft_ms)))


def _settle(future: asyncio.Future[bool], served: bool) -> None:
    if not future.done():
        future.set_result(served)
