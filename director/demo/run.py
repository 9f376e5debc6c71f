"""The demo as a whole: the director, the fleet, an agent for each region, traffic; and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy.exc import ProgrammingError

from director.demo.agents import write_configurations, write_secret
from director.demo.edge import Edge
from director.demo.fleet import FleetPlaces, FleetStatus, read_places
from director.demo.processes import Process
from director.demo.progress import Progress
from director.demo.wire import Client, Unreachable
from director.demo.workload import Workload
from director.resources import policies_dir
from director.serve import ports, running
from director.serve.options import Options
from director.store import tokens
from director.store.database import Database, DatabaseUnavailable

START_S = 60.0
"""Longer than any start should take, on any machine: after it something is wrong."""
SCOPES = {"decide": ["decide"], "read": ["read"], "operate": ["operate", "read"]}
OURS = ("demo.json", "postgres", "logs", "agents")
"""What a demo leaves in its folder: `--reset` removes no folder that has none of them."""

Say = Callable[[str], None]
T = TypeVar("T")


class CannotRun(Exception):
    """The message is the one line to print."""


class DemoFile(Struct, frozen=True):
    """DIR/demo.json: where the demo can be asked, and with what."""

    http: str
    dns: str
    tokens: dict[str, str]


class Demo:
    def __init__(self, http_port: int, dns_port: int, data: Path, say: Say) -> None:
        self._options = Options("127.0.0.1", http_port, "127.0.0.1", dns_port, data, policies_dir())
        self._data = data
        self._say = say
        where = ["--http-port", str(http_port), "--dns-port", str(dns_port)]
        what = ["--data", str(data), "--policy", str(policies_dir())]
        self._serve = Process("director serve", ["director", "serve", *where, *what], data / "logs" / "serve.log")
        self._fleet = Process(
            "fleet", ["director.demo.fleet_process", str(data / "fleet.json")], data / "logs" / "fleet.log"
        )
        self._agents: list[Process] = []
        self._client = Client()

    @property
    def _address(self) -> tuple[str, int]:
        return (self._options.http_host, self._options.http_port)

    async def run(self) -> None:
        """Until SIGINT or SIGTERM. Raises CannotRun; stops everything it started in any case."""
        self._refuse_taken()
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        stopped = asyncio.create_task(stop.wait())
        work = asyncio.create_task(self._work())
        try:
            await asyncio.wait([stopped, work], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            else:
                self._say("stopping")
        finally:
            await _end(work, stopped)
            await self._stop_all()

    def _refuse_taken(self) -> None:
        try:
            ports.check(self._options)
        except ports.PortUnusable as error:
            raise CannotRun(str(error)) from error
        other = running.read(self._data)
        if other is not None:
            raise CannotRun(f"{self._data} is in use by a running director (process {other.pid})")

    async def _work(self) -> None:
        began_s = time.monotonic()
        (self._data / "fleet.json").unlink(missing_ok=True)
        self._say(f"starting the director and a fleet of five regions; data and logs in {self._data}")
        await asyncio.gather(self._serve.start(), self._fleet.start())
        places = await self._wait_for(self._read_places, self._fleet, "the fleet")
        regions = [place.region for place in places.regions]
        made = await self._wait_for(lambda: self._make_tokens(regions), self._serve, "the director's database")
        report_tokens = {name.removeprefix("report:"): made[name] for name in made if name.startswith("report:")}
        paths = write_configurations(self._data / "agents", places, self._options.http_url, report_tokens)
        self._agents = [self._agent(path) for path in paths]
        await asyncio.gather(*(agent.start() for agent in self._agents))
        await self._wait_for(lambda: self._decides(made["decide"]), self._serve, "a first decision")
        self._introduce(made, time.monotonic() - began_s)
        await self._drive(places, made["decide"])

    def _agent(self, path: Path) -> Process:
        log = self._data / "logs" / f"agent-{path.stem}.log"
        return Process(f"agent {path.stem}", ["director", "agent", "-c", str(path)], log)

    async def _drive(self, places: FleetPlaces, token: str) -> None:
        """Traffic and a line a second, while every part lives; a part that ends is started again."""
        gateways = {place.region: place.gateway_port for place in places.regions}
        edge = Edge(self._address, token, gateways, Workload(secrets.randbits(32)))
        async with asyncio.TaskGroup() as group:
            group.create_task(edge.run())
            group.create_task(self._report_progress(edge, places))
            for process in (self._serve, self._fleet, *self._agents):
                group.create_task(self._keep(process))

    async def _report_progress(self, edge: Edge, places: FleetPlaces) -> None:
        progress = Progress([place.region for place in places.regions])
        complaint = ""
        while True:
            await asyncio.sleep(1.0)
            second = edge.take_second()
            self._say(progress.line(second, await self._fleet_status(places), edge.in_flight))
            if second.complaint and second.complaint != complaint:
                self._say(f"  {second.complaint}")
            complaint = second.complaint

    async def _keep(self, process: Process) -> None:
        while True:
            code = await process.wait()
            if process is self._fleet:
                raise CannotRun(f"the fleet ended (code {code}): {process.last_line()}")
            self._say(f"{process.name} ended (code {code}): {process.last_line()}; starting it again")
            await asyncio.sleep(1.0)
            await process.start()

    async def _fleet_status(self, places: FleetPlaces) -> FleetStatus | None:
        try:
            answer = await self._client.request(("127.0.0.1", places.control_port), "GET", "/fleet", timeout_s=0.5)
            return msgspec.json.decode(answer.body, type=FleetStatus)
        except (Unreachable, msgspec.DecodeError):
            return None

    async def _wait_for(self, check: Callable[[], Awaitable[T | None]], process: Process, what: str) -> T:
        """What `check` finds once it finds something. Raises CannotRun when `process` ends first, or after START_S."""
        try:
            async with asyncio.timeout(START_S):
                while True:
                    found = await check()
                    if found is not None:
                        return found
                    if process.returncode is not None:
                        raise CannotRun(f"{process.name} ended (code {process.returncode}): {process.last_line()}")
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise CannotRun(f"{what} did not come up within {START_S:.0f} s; see {process.log}") from error

    async def _read_places(self) -> FleetPlaces | None:
        return read_places(self._data / "fleet.json")

    async def _decides(self, token: str) -> bool | None:
        """Whether a decision comes: the agents have reported, and the planner has planned."""
        headers = {"authorization": f"Bearer {token}"}
        with contextlib.suppress(Unreachable):
            path = "/select-region?tenant=open&model=llama-3.3-70b"
            answer = await self._client.request(self._address, "GET", path, headers=headers, timeout_s=1.0)
            return True if answer.status == 200 else None
        return None

    async def _make_tokens(self, regions: list[str]) -> dict[str, str] | None:
        """New ones at each start, in the place of the last start's: only their hashes were kept. None: too early.

        The agents start while the director's roles still do, so this does not wait for those.
        """
        found = running.read(self._data)
        if found is None:
            return None
        wanted = SCOPES | {f"report:{region}": [f"report:{region}"] for region in regions}
        database = Database(found.database_url, pool_size=2)
        try:
            made = {
                name: await tokens.create(database, f"demo {name}", scopes, replace=True)
                for name, scopes in wanted.items()
            }
        except (DatabaseUnavailable, ProgrammingError):  # not listening yet; no tables yet
            return None
        finally:
            await database.close()
        demo = DemoFile(self._options.http_url, self._options.dns_address, made)
        write_secret(self._data / "demo.json", msgspec.json.format(msgspec.json.encode(demo), indent=1).decode() + "\n")
        return made

    def _introduce(self, made: dict[str, str], took_s: float) -> None:
        url, options = self._options.http_url, self._options
        question = (
            '{"tenant": "acme", "model": "llama-3.3-70b", "client_ip": "203.0.113.7", "session": "203.0.113.0/24"}'
        )
        for line in (
            f"ready after {took_s:.1f} s",
            "",
            f"  dashboard  {url}/    (token: read, in {self._data / 'demo.json'})",
            f"  API        {url}/schema/openapi.json",
            f"  DNS        {options.dns_address}, UDP and TCP",
            "",
            "  Both ask for the same route and name the same region:",
            f"  curl -s {url}/select-region -H 'Authorization: Bearer {made['decide']}' -d '{question}'",
            f"  dig @{options.dns_host} -p {options.dns_port} chat.eu.infer.example.com A +subnet=203.0.113.0/24",
            "",
            "  Ctrl-C stops everything; the next start goes on with the stored data, --reset begins anew.",
            "",
        ):
            self._say(line)

    async def _stop_all(self) -> None:
        """Agents and fleet first: the director sees no failures that are only our leaving."""
        self._client.close()
        await asyncio.gather(*(agent.stop() for agent in self._agents))
        await asyncio.gather(self._fleet.stop(), self._serve.stop())


def reset(data: Path) -> None:
    """Remove a demo's folder. Raises CannotRun for a folder that is none, or is in use."""
    other = running.read(data)
    if other is not None:
        raise CannotRun(f"{data} is in use by a running director (process {other.pid})")
    if not data.exists():
        return
    if any(data.iterdir()) and not any((data / name).exists() for name in OURS):
        raise CannotRun(f"{data} holds no demo's data: it is not removed")
    shutil.rmtree(data)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
