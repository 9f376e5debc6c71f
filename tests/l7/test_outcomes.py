"""Outcomes end to end: a proxy's log, `director l7 outcomes`, the director, and what its breaker makes of them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.l7.nginx import Nginx, nginx
from tests.l7.reporter import reporter
from tests.l7.world import World, ask
from tests.serve.processes import free_port, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.system]

HERE = "eu-central-1"
"""The nearest region of the callers here: most of their requests enter it."""


class Edges:
    """Two proxies, each a witness of its own."""

    def __init__(self, world: World, one: Nginx, two: Nginx) -> None:
        self.world = world
        self.one = one
        self.two = two

    def cut_off(self, proxy: Nginx) -> None:
        """This proxy alone loses its path to the region."""
        text = self.world.fallbacks("nginx")
        port = self.world.gateways.ports[HERE]
        self._apply(proxy, text.replace(f"server 127.0.0.1:{port} ", f"server 127.0.0.1:{free_port()} "))

    def heal(self) -> None:
        for proxy in (self.one, self.two):
            self._apply(proxy, self.world.fallbacks("nginx"))

    def _apply(self, proxy: Nginx, text: str) -> None:
        proxy.write("fallbacks.conf", text)
        proxy.reload()

    def counted(self, outcome: str) -> float:
        """What the director has counted of a class, of all regions."""
        return self.world.counted(outcome)

    def settled(self, outcome: str) -> float:
        """The count of a class when it has not moved for longer than a reporter waits to send."""
        found = [(time.monotonic(), self.counted(outcome))]

        def still() -> bool:
            now = self.counted(outcome)
            if now != found[0][1]:
                found[0] = (time.monotonic(), now)
            return time.monotonic() - found[0][0] > 3.0

        wait_for(still, why="counts come to rest")
        return found[0][1]

    def send(self, *proxies: Nginx, count: int) -> list[httpx.Response]:
        stamp = time.monotonic_ns()
        return [
            ask(proxy.port, headers={"X-Session-Id": f"{stamp}-{n}"}, body={"max_tokens": 1})
            for n in range(count)
            for proxy in proxies
        ]


@pytest.fixture(scope="module")
def standing_edges(standing_world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edges]:
    standing_world.calm()
    folder = tmp_path_factory.mktemp("edges")
    with (
        reporter(folder, standing_world, "edge-1") as to_one,
        reporter(folder, standing_world, "edge-2") as to_two,
        nginx(folder / "one", "njs", standing_world, outcomes_port=to_one) as one,
        nginx(folder / "two", "auth_request", standing_world, outcomes_port=to_two) as two,
    ):
        yield Edges(standing_world, one, two)


@pytest.fixture
def edges(standing_edges: Edges, calm_world: World) -> Edges:
    standing_edges.heal()
    wait_for(lambda: _well(standing_edges), why="trials close the breaker again")
    return standing_edges


def _well(edges: Edges) -> bool:
    """Requests are what closes a breaker on trial."""
    edges.send(edges.one, edges.two, count=10)
    return edges.world.breaker(HERE) == edges.world.breaker("eu-west-1") == "closed"


def test_one_partitioned_proxy_closes_nothing_and_two_do(edges: Edges) -> None:
    """D24: what one proxy alone cannot reach stays open for everyone else; when a second agrees, it opens."""
    world = edges.world
    before = edges.counted("connect")
    edges.cut_off(edges.one)

    def enough() -> bool:
        answers = edges.send(edges.one, edges.two, count=10)
        assert {answer.status_code for answer in answers} == {200}  # another region took what did not get through
        return edges.counted("connect") >= before + 60

    wait_for(enough, why="its failures are counted")
    # Two ticks of the planner with all of that in hand.
    epoch_until_s = time.monotonic() + 2.5
    while time.monotonic() < epoch_until_s:
        edges.send(edges.one, edges.two, count=2)
        assert world.breaker(HERE) == "closed"
    edges.cut_off(edges.two)

    def opened() -> bool:
        edges.send(edges.one, edges.two, count=10)
        return world.breaker(HERE) != "closed"

    wait_for(opened, why="two witnesses open it")


def test_client_errors_count_against_nobody(edges: Edges) -> None:
    """D9: a tenant that sends nonsense gets 400 from a region that stays as open as it was."""
    world = edges.world
    for region in (HERE, "eu-west-1"):
        world.gateways.fault(region, status=400)
    before, server = edges.settled("client"), edges.settled("server")
    answers = edges.send(edges.one, edges.two, count=100)
    assert {answer.status_code for answer in answers} == {400}
    wait_for(lambda: edges.counted("client") >= before + 200, why="they are counted as the client's")
    assert edges.counted("client") == before + 200
    assert edges.counted("server") == server
    assert world.breaker(HERE) == world.breaker("eu-west-1") == "closed"


def test_backpressure_lowers_quality_and_opens_no_breaker(edges: Edges) -> None:
    """D10: 429 and 503 with Retry-After are throttling: what the region counts for falls, its breaker stays closed."""
    world = edges.world
    before = edges.settled("throttled")
    sent = 0
    for status in (429, 503):
        world.gateways.fault(HERE, status=status, retry_after="10")

        def lower() -> bool:
            nonlocal sent
            sent += sum(answer.status_code == status for answer in edges.send(edges.one, edges.two, count=10))  # noqa: B023
            return float(world.deployment(HERE)["quality"]) < 0.9

        wait_for(lower, why="its quality falls")
    wait_for(lambda: edges.counted("throttled") >= before + sent, why="they are counted as throttled")
    assert world.breaker(HERE) == world.breaker("eu-west-1") == "closed"


def test_server_errors_of_both_proxies_open_the_breaker(edges: Edges) -> None:
    """500 from the region, seen by two proxies: it is left, and tried again after its open time."""
    world = edges.world
    world.gateways.fault(HERE, status=500)

    def opened() -> bool:
        edges.send(edges.one, edges.two, count=10)
        return world.breaker(HERE) != "closed"

    wait_for(opened, why="it opens")


def test_an_unfinished_request_is_not_counted(edges: Edges) -> None:
    """A stream counts once, when it is over: not while it runs."""
    before = edges.settled("ok")
    done = threading.Event()

    def stream() -> None:
        ask(edges.one.port, body={"max_tokens": 8, "gap_ms": 250})
        done.set()

    thread = threading.Thread(target=stream)
    thread.start()
    while not done.is_set():
        now = edges.counted("ok")
        assert done.is_set() or now == before
    thread.join()
    wait_for(lambda: edges.counted("ok") == before + 1, why="it is counted when it is over")


def test_a_batch_waits_for_a_director_that_is_away(edges: Edges, tmp_path: Path) -> None:
    """What could not be sent is sent again under the same id, and counts once."""
    world = edges.world
    place = f"unix:{tmp_path}/outcomes.sock"
    before = edges.settled("timeout")
    with world.front.being("refuse"), reporter(tmp_path, world, "edge-3", place, through=world.front.port):
        _log_lines(tmp_path / "outcomes.sock", 5)
        wait_for(lambda: "outcomes_unsent" in (tmp_path / "edge-3.log").read_text(), why="it could not be sent")
        world.front.set("open")
        wait_for(lambda: world.counted("timeout") == before + 5, why="it arrives when it can")
        assert edges.settled("timeout") == before + 5


def _log_lines(path: Path, count: int) -> None:
    line = (
        '<190>Nov 30 12:00:00 director: {"model":"llama-3.3-70b","regions":"us-west-2","versions":"2026-08-14",'
        '"statuses":"504","connected":"0.010","answered":"-"}'
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
        for _ in range(count):
            sending.sendto(line.encode(), str(path))
