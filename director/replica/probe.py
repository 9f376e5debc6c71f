"""Probes of our own: a real HTTP request from this replica to each region's gateway.

Problem: a region whose reporter died looks like a region that died, and a gateway may be dead in front of fine engines.
Mechanism: every replica asks each gateway that the policy says to probe, at its own pace, and hands the planner what it
found; the planner counts replicas, so that one lost path closes nothing.
Hard cases: a gateway that accepts and never answers (a time limit, and every region has a task of its own, so it
delays nobody); a policy that changes (tasks are started and ended to fit); the database is away (results are dropped,
since a result from a minute ago says nothing).
"""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import TYPE_CHECKING

import structlog

from director.core.observations import ProbeResult
from director.core.policy import Probe
from director.replica.replica import Replica
from director.store import probes
from director.store.database import Database, DatabaseUnavailable

if TYPE_CHECKING:
    import httpx

FIT_S = 1.0
"""How often tasks are fitted to the policy, and results handed over."""
PENDING_MAX = 10_000

log = structlog.get_logger()


class Prober:
    """Runs beside a follower, in the same process. `run` returns when cancelled."""

    def __init__(self, replica: Replica, database: Database) -> None:
        self._replica = replica
        self._database = database
        self._tasks: dict[str, tuple[Probe, asyncio.Task[None]]] = {}
        self._pending: list[ProbeResult] = []
        self._client: httpx.AsyncClient | None = None

    async def run(self) -> None:
        try:
            while True:
                self._fit()
                await self._hand_over()
                await asyncio.sleep(FIT_S)
        finally:
            tasks = [task for _, task in self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._client is not None:
                await self._client.aclose()

    def _fit(self) -> None:
        """One task for each probe of the policy in use, and none besides."""
        table = self._replica.compiled
        wanted = {name: region.probe for name, region in table.policy.regions.items()} if table is not None else {}
        for name, (running, task) in list(self._tasks.items()):
            if wanted.get(name) != running or task.done():
                task.cancel()
                del self._tasks[name]
        for name, probe in wanted.items():
            if probe is not None and name not in self._tasks:
                self._tasks[name] = (probe, asyncio.create_task(self._probe_forever(name, probe), name=f"probe-{name}"))

    async def _hand_over(self) -> None:
        found, self._pending = self._pending, []
        if not found or self._replica.degraded:
            return
        try:
            await probes.put(self._database, found)
        except DatabaseUnavailable:
            return
        except Exception:
            log.exception("probes_not_stored", count=len(found))

    async def _probe_forever(self, region: str, probe: Probe) -> None:
        # Spread by name, so that neither the regions nor the replicas ask all at once.
        await asyncio.sleep(probe.interval_s * _fraction(f"{self._replica.name} {region}"))
        loop = asyncio.get_running_loop()
        while True:
            started_s = loop.time()
            ok = await self._ask(probe)
            if len(self._pending) < PENDING_MAX:
                self._pending.append(ProbeResult(self._replica.name, region, self._replica.now_ms(), ok))
            await asyncio.sleep(max(0.0, started_s + probe.interval_s - loop.time()))

    async def _ask(self, probe: Probe) -> bool:
        """Whether the gateway answered in time, and with a success. A redirection elsewhere is none."""
        # Imported here: it weighs some MiB, and most policies probe nothing.
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(follow_redirects=False, limits=httpx.Limits(max_keepalive_connections=256))
        try:
            async with (
                asyncio.timeout(probe.timeout_s),
                self._client.stream("GET", probe.url, timeout=probe.timeout_s) as response,
            ):
                return response.is_success
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError):
            return False


def _fraction(text: str) -> float:
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest()) / 2**32
