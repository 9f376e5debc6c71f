"""A region's gateway is killed under load: only what was in flight there is lost."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.e2e.tree import MODEL
from tests.l7.nginx import nginx
from tests.l7.world import World
from tests.serve.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.system]

HERE = "eu-central-1"
CLIENTS = 12


class Streams:
    """Many clients, each with one stream after the other."""

    def __init__(self, port: int, clients: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v1/chat/completions"
        self._stop = threading.Event()
        self._numbers = itertools.count()
        self.ended: list[tuple[float, float, str, str]] = []
        """Began, ended (monotonic seconds), region, how: whole, cut, or a status."""
        self.in_flight: dict[int, tuple[float, str]] = {}
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(20)

    def _run(self) -> None:
        headers = {"Authorization": "Bearer demo-key-of-acme"}
        with httpx.Client(headers=headers, verify=False, timeout=10) as client:
            while not self._stop.is_set():
                self._one(client, next(self._numbers))
                client.cookies.clear()

    def _one(self, client: httpx.Client, number: int) -> None:
        began, region, how = time.monotonic(), "", "cut"
        body = {"model": MODEL, "max_tokens": 8, "gap_ms": 40}
        try:
            with client.stream("POST", self._url, json=body, headers={"X-Session-Id": f"load-{number}"}) as answer:
                region = answer.headers.get("X-Gateway", "")
                self.in_flight[number] = (began, region)
                text = "".join(answer.iter_text())
                if answer.status_code != 200:
                    how = str(answer.status_code)
                elif text.endswith("data: [DONE]\n\n"):
                    how = "whole"
        except httpx.HTTPError:
            how = "cut"
        self.in_flight.pop(number, None)
        self.ended.append((began, time.monotonic(), region, how))


@pytest.mark.parametrize("variant", ["auth_request", "njs"])
def test_only_what_was_in_flight_is_lost(calm_world: World, tmp_path: Path, variant: str) -> None:
    """The gateway dies in mid-stream: streams in it break, every later request is whole, none goes there again."""
    world = calm_world
    wait_for(lambda: world.breaker(HERE) == "closed", why="the breaker is closed")
    with nginx(tmp_path / "ng", variant, world) as proxy:
        load = Streams(proxy.port, clients=CLIENTS)
        try:
            wait_for(lambda: Counter(region for *_, region, _ in load.ended)[HERE] >= 12, why="the region is in use")
            wait_for(lambda: sum(r == HERE for _, r in list(load.in_flight.values())) >= 3, why="streams are in it")
            alive_s = time.monotonic()
            world.gateways.kill(HERE)
            dead_s = time.monotonic()
            world.fleet.health[HERE] = "down"  # its agent sees the dead gateway with its next check
            done = len(load.ended)
            wait_for(lambda: len(load.ended) >= done + 100, why="load goes on")
        finally:
            load.stop()
    before = [how for _, ended, _, how in load.ended if ended < alive_s]
    lost = [(began < dead_s, region, how) for began, _, region, how in load.ended if how != "whole"]
    after = [(region, how) for began, _, region, how in load.ended if began > dead_s]
    assert set(before) == {"whole"}
    # A stream that had begun in the dead region, and nothing else.
    assert set(lost) == {(True, HERE, "cut")}
    assert len(lost) <= CLIENTS
    assert len(after) >= 50
    assert set(after) == {("eu-west-1", "whole")}
