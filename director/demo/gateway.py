"""A region's gateway: passes each request to the replica with the fewest, and exposes a picker's metrics."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from director.demo.dumps import PoolFigures, picker_dump
from director.demo.layout import RegionLayout
from director.demo.server import METRICS_TYPE, Completion, ModelServer, Usage
from director.demo.wire import Client, Request, Response, Server, Unreachable

Failure = Literal["dark", "errors"]
"""`dark`: nothing in the region answers. `errors`: the gateway answers 502 to everything, its engines are fine."""


class Gateway:
    def __init__(self, layout: RegionLayout, servers: list[ModelServer]) -> None:
        self.layout = layout
        self.servers = servers
        self.failure: Failure | None = None
        self._server = Server(self._handle)
        self._client = Client()
        self._born_at_s = time.time()
        self._figures = {pool.name: PoolFigures(pool.name, pool.model) for pool in layout.pools}

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self, port: int) -> None:
        """Raises OSError when the port is taken."""
        await self._server.listen(port)

    def die(self) -> None:
        self._server.die()
        self._client.close()

    async def _handle(self, request: Request) -> Response:
        if request.path == "/metrics" and self.layout.picker is not None:
            return Response(200, self._dump().encode(), METRICS_TYPE)
        if self.failure == "errors":
            if request.path == "/v1/completions":
                self._count_error(request.body, "Internal")
            return Response(502, b'{"error":"upstream failed"}')
        if request.path == "/health":
            alive = any(server.alive for server in self.servers)
            return Response(200 if alive else 503)
        if request.path == "/v1/completions" and request.method == "POST":
            return await self._pass_on(request)
        return Response(404)

    async def _pass_on(self, request: Request) -> Response:
        asked = msgspec.json.decode(request.body, type=Completion)
        figures = self._figures.get(f"{asked.model}-{asked.version}")
        if figures is None:
            return Response(404, b'{"error":"no such model version here"}')
        figures.requests += 1
        ready = self._ready(figures.pool)
        if not ready:
            figures.failed("ServiceUnavailable")
            return Response(503, b'{"error":"no ready replica"}', headers={"retry-after": "5"})
        server = min(ready, key=lambda s: len(s.engine.running) + len(s.engine.waiting))
        try:
            answer = await self._client.request(("127.0.0.1", server.port), "POST", request.path, request.body)
        except Unreachable:
            figures.failed("Internal")
            return Response(502, b'{"error":"replica broke off"}')
        if answer.status == 503:
            figures.failed("ResourceExhausted")
            return Response(503, answer.body, headers={"retry-after": answer.headers.get("retry-after", "2")})
        usage = msgspec.json.decode(answer.body, type=Usage)
        figures.input_tokens += usage.prompt_tokens
        figures.output_tokens += usage.completion_tokens
        return Response(answer.status, answer.body)

    def _ready(self, pool_name: str) -> list[ModelServer]:
        return [server for server in self.servers if server.pool.name == pool_name and server.alive]

    def _count_error(self, body: bytes, code: str) -> None:
        asked = msgspec.json.decode(body, type=Completion)
        figures = self._figures.get(f"{asked.model}-{asked.version}")
        if figures is not None:
            figures.requests += 1
            figures.failed(code)

    def _dump(self) -> str:
        pools = {name: (figures, [s.engine for s in self._ready(name)]) for name, figures in self._figures.items()}
        return picker_dump(pools, self.layout.picker or "llm-d", self._born_at_s)
