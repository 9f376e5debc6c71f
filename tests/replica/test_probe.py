from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from director.core.observations import ProbeResult
from director.core.policy import Policy, Probe
from director.core.table import RoutingTable
from director.replica.probe import Prober
from director.replica.replica import Replica
from director.store import probes
from director.store.database import Database
from tests.replica.worlds import KEYRING, POLICY, plan

pytestmark = pytest.mark.postgres


class Gateway:
    """A region's gateway: answers with `status`, or accepts and stays silent (None)."""

    def __init__(self) -> None:
        self.status: int | None = 200
        self.asked = 0
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.asked += 1
                if self.status is None:
                    await asyncio.sleep(3600)
                extra = "Location: /elsewhere\r\n" if self.status == 302 else ""
                writer.write(f"HTTP/1.1 {self.status} X\r\n{extra}Content-Length: 2\r\n\r\nok".encode())
                await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Gateway]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/health"
        yield self
        server.close()


def probing(**urls: str | None) -> Policy:
    regions = dict(POLICY.regions)
    for name, url in urls.items():
        region = name.replace("_", "-")
        probe = None if url is None else Probe(url=url, interval_s=0.1, timeout_s=0.3)
        regions[region] = structs.replace(regions[region], probe=probe)
    return structs.replace(POLICY, regions=regions)


@contextlib.asynccontextmanager
async def prober(database: Database, policy: Policy) -> AsyncIterator[Replica]:
    replica = Replica("r1", database)
    replica.degraded = False
    replica.adopt(RoutingTable(plan(), policy, KEYRING), 1)
    task = asyncio.create_task(Prober(replica, database).run())
    try:
        yield replica
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def results(database: Database, per_region: int, *regions: str) -> dict[str, list[ProbeResult]]:
    """At least so many results of each region."""
    deadline_s = time.monotonic() + 10
    while True:
        found: dict[str, list[ProbeResult]] = defaultdict(list)
        for result in (await probes.since(database, None))[0]:
            found[result.region].append(result)
        if all(len(found[region]) >= per_region for region in regions):
            return found
        assert time.monotonic() < deadline_s, dict(found)
        await asyncio.sleep(0.05)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("director.replica.probe.FIT_S", 0.05)


@pytest.mark.parametrize(("status", "ok"), [(200, True), (204, True), (302, False), (404, False), (500, False)])
async def test_a_success_and_only_a_success_is_ok(database: Database, status: int, ok: bool) -> None:
    """What the gateway answers decides; results carry this replica's name."""
    async with Gateway().listening() as gateway:
        gateway.status = status
        async with prober(database, probing(eu_west_1=gateway.url)):
            found = await results(database, 2, "eu-west-1")
    assert {result.ok for result in found["eu-west-1"]} == {ok}
    assert {result.replica for result in found["eu-west-1"]} == {"r1"}
    assert set(found) == {"eu-west-1"}, "the other region is not to be probed"


async def test_a_silent_gateway_fails_in_time_and_delays_nobody(database: Database) -> None:
    """One accepts and never answers; the other is asked as often as before."""
    async with Gateway().listening() as dead, Gateway().listening() as fine:
        dead.status = None
        async with prober(database, probing(eu_west_1=dead.url, us_east_1=fine.url)):
            found = await results(database, 2, "eu-west-1", "us-east-1")
    assert {result.ok for result in found["eu-west-1"]} == {False}
    assert {result.ok for result in found["us-east-1"]} == {True}
    assert len(found["us-east-1"]) > len(found["eu-west-1"])


async def test_nobody_listens(database: Database) -> None:
    """A refused connection is a failure, not an exception."""
    async with prober(database, probing(eu_west_1="http://127.0.0.1:1/")):
        found = await results(database, 2, "eu-west-1")
    assert {result.ok for result in found["eu-west-1"]} == {False}


async def test_probes_follow_the_policy(database: Database) -> None:
    """A policy that asks another URL is followed; one that asks none ends the probing."""
    async with (
        Gateway().listening() as first,
        Gateway().listening() as second,
        prober(database, probing(eu_west_1=first.url)) as replica,
    ):
        await results(database, 1, "eu-west-1")
        replica.adopt(RoutingTable(plan(101), probing(eu_west_1=second.url), KEYRING), 2)
        deadline_s = time.monotonic() + 5
        while second.asked < 2:
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0.02)
        before = first.asked
        while second.asked < 5:
            await asyncio.sleep(0.02)
        assert first.asked == before


async def test_results_are_dropped_while_the_database_is_away(database: Database) -> None:
    """They would be stale when it is back."""
    async with Gateway().listening() as gateway, prober(database, probing(eu_west_1=gateway.url)) as replica:
        replica.degraded = True
        before = len((await probes.since(database, None))[0])
        asked = gateway.asked
        while gateway.asked < asked + 5:
            await asyncio.sleep(0.02)
        assert len((await probes.since(database, None))[0]) <= before + 1
