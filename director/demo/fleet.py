"""The whole fleet in one process: model servers and gateways of every region, and the failures that visit them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, field

from director.demo import layout
from director.demo.gateway import Failure, Gateway
from director.demo.server import ModelServer
from director.demo.wire import Request, Response, Server

TICK_S = 0.1
PORTS = range(20_000, 32_000)
"""Below the range that outgoing connections take theirs from: a server that was killed must get its port back."""


class PoolPlace(Struct, frozen=True):
    model: str
    version: str
    ports: tuple[int, ...]


class RegionPlace(Struct, frozen=True):
    region: str
    gateway_port: int
    pools: tuple[PoolPlace, ...]


class FleetPlaces(Struct, frozen=True):
    """Where everything listens, on 127.0.0.1: written to DIR/fleet.json for the traffic and the agents."""

    pid: int
    control_port: int
    regions: tuple[RegionPlace, ...]


class FleetStatus(Struct, frozen=True):
    """`GET /fleet` on the control port."""

    failing: str | None = None
    failure: Failure | None = None
    for_s: float = 0.0
    running: dict[str, int] = field(default_factory=dict)


class Region:
    def __init__(self, plan: layout.RegionLayout) -> None:
        self.name = plan.region
        self.servers = [ModelServer(pool) for pool in plan.pools for _ in range(pool.servers)]
        self.gateway = Gateway(plan, self.servers)

    async def start(self, ports: Iterator[int]) -> None:
        for server in self.servers:
            await _on_free_port(server, ports)
        await _on_free_port(self.gateway, ports)

    def fail(self, failure: Failure) -> None:
        self.gateway.failure = failure
        if failure == "dark":
            self.gateway.die()
            for server in self.servers:
                server.die()

    async def recover(self) -> None:
        """Servers come back empty, on their ports."""
        if self.gateway.failure == "dark":
            parts: list[ModelServer | Gateway] = [*self.servers, self.gateway]
            for part in parts:
                while True:
                    try:
                        await part.start(part.port)
                        break
                    except OSError:
                        await asyncio.sleep(0.5)
        self.gateway.failure = None

    def place(self) -> RegionPlace:
        pools = {server.pool.name: server.pool for server in self.servers}
        return RegionPlace(
            self.name,
            self.gateway.port,
            tuple(
                PoolPlace(pool.model, pool.version, tuple(s.port for s in self.servers if s.pool.name == name))
                for name, pool in pools.items()
            ),
        )


class Fleet:
    def __init__(self, plans: tuple[layout.RegionLayout, ...] = layout.REGIONS) -> None:
        self.regions = [Region(plan) for plan in plans]
        self._control = Server(self._handle)
        self._failing: Region | None = None
        self._since_s = 0.0

    async def start(self) -> FleetPlaces:
        ports = iter(PORTS)
        for region in self.regions:
            await region.start(ports)
        await self._control.listen(0)
        return FleetPlaces(os.getpid(), self._control.port, tuple(region.place() for region in self.regions))

    async def run(self) -> None:
        """Engines advance and failures come and go, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._advance())
            group.create_task(self._visit_failures())

    def stop(self) -> None:
        self._control.die()
        for region in self.regions:
            region.fail("dark")

    async def _advance(self) -> None:
        while True:
            for region in self.regions:
                for server in region.servers:
                    if not server.engine.idle:
                        server.advance()
            await asyncio.sleep(TICK_S)

    async def _visit_failures(self) -> None:
        await asyncio.sleep(layout.FIRST_FAILURE_S)
        visit = 0
        while True:
            name = layout.FAILING_REGIONS[visit % len(layout.FAILING_REGIONS)]
            failure: Failure = "dark" if visit % 2 == 0 else "errors"
            region = next((region for region in self.regions if region.name == name), self.regions[0])
            await self.fail_for(region, failure, layout.FAILURE_S)
            await asyncio.sleep(layout.FAILURE_PERIOD_S - layout.FAILURE_S)
            visit += 1

    async def fail_for(self, region: Region, failure: Failure, duration_s: float) -> None:
        self._failing, self._since_s = region, time.monotonic()
        region.fail(failure)
        await asyncio.sleep(duration_s)
        await region.recover()
        self._failing = None

    async def _handle(self, request: Request) -> Response:
        if request.path != "/fleet":
            return Response(404)
        running = {region.name: sum(len(s.engine.running) for s in region.servers) for region in self.regions}
        status = FleetStatus(running=running)
        if self._failing is not None:
            since_s = round(time.monotonic() - self._since_s, 1)
            status = FleetStatus(self._failing.name, self._failing.gateway.failure, since_s, running)
        return Response(200, msgspec.json.encode(status))


async def _on_free_port(part: ModelServer | Gateway, ports: Iterator[int]) -> None:
    for port in ports:
        with contextlib.suppress(OSError):
            await part.start(port)
            return
    raise RuntimeError(f"no free port between {PORTS.start} and {PORTS.stop}")


def write_places(path: Path, places: FleetPlaces) -> None:
    """Whole or not at all: others wait for this file."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(places), indent=1))
    partial.replace(path)


def read_places(path: Path) -> FleetPlaces | None:
    """None while there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FleetPlaces)
    except (OSError, msgspec.DecodeError):
        return None
