"""Fleet and clients over real sockets: requests occupy engines, failures fail, clients go where they are told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from director.agent.collect import Collector
from director.agent.config_file import load
from director.demo.agents import write_configurations
from director.demo.edge import Edge, Second
from director.demo.fleet import Fleet, FleetStatus, read_places, write_places
from director.demo.layout import LLAMA, REGIONS, Audience
from director.demo.progress import Progress
from director.demo.wire import Client, Request, Response, Server, Unreachable
from director.demo.workload import Ask, Session, Workload

HERE = Audience("europe", "198.18", (0, 127), "open", LLAMA, 1.0)


class Director:
    """Decides for the first region that is not excluded, and keeps what it was asked."""

    def __init__(self, *regions: str) -> None:
        self.regions = regions
        self.questions: list[dict[str, object]] = []
        self.outcomes: list[dict[str, object]] = []

    async def __call__(self, request: Request) -> Response:
        if request.path == "/outcomes":
            self.outcomes += json.loads(request.body)["outcomes"]
            return Response(202, b"{}")
        question = json.loads(request.body)
        self.questions.append(question)
        left = [region for region in self.regions if region not in question.get("exclude", ())]
        if not left:
            return Response(503, b"{}")
        decision = {
            "region": left[0], "model": LLAMA, "version": "2026-08-14", "reason": "home",
            "affinity": {"token": f"for-{left[0]}"}, "plan": {"epoch": 7, "static": False},
        }  # fmt: skip
        return Response(200, json.dumps(decision).encode())


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "the condition did not come true in time"
        await asyncio.sleep(0.02)


def ask(session: Session | None = None) -> Ask:
    return Ask(HERE, session or Session("conv-1", "198.18.0.1", None), 100, 5)


async def test_a_request_is_decided_served_and_reported_and_a_failed_one_goes_elsewhere() -> None:
    """The token comes back with the next turn; a dark region is excluded and its failure told; then it recovers."""
    fleet = Fleet(REGIONS[:2])
    places = await fleet.start()
    running = asyncio.create_task(fleet.run())
    director = Director("eu-west-1", "eu-central-1")
    server = Server(director)
    await server.listen(0)
    gateways = {place.region: place.gateway_port for place in places.regions}
    edge = Edge(("127.0.0.1", server.port), "t", gateways, Workload(1, [HERE]))
    traffic = None
    try:
        session = Session("conv-1", "198.18.0.1", "acme-support-v3")
        await edge.serve(ask(session))
        assert (edge.second.served, edge.second.regions["eu-west-1"]) == (1, 1)
        assert session.affinity == "for-eu-west-1"
        west = fleet.regions[0]
        assert sum(server.engine.counters.finished for server in west.servers) == 1

        west.fail("dark")
        await edge.serve(ask(session))
        assert director.questions[1]["affinity"] == "for-eu-west-1"
        assert director.questions[2]["exclude"] == ["eu-west-1"]
        assert (edge.second.served, edge.second.failed["connect"]) == (2, 1)

        traffic = asyncio.create_task(edge.run())
        await until(lambda: any(o["class"] == "connect" and o["region"] == "eu-west-1" for o in director.outcomes))
        await west.recover()
        before = edge.second.regions["eu-west-1"]
        await edge.serve(ask())
        assert edge.second.regions["eu-west-1"] == before + 1
        assert all(server.engine.counters.finished <= 1 for server in west.servers)

        west.fail("errors")
        await edge.serve(ask())
        assert edge.second.failed["server"] >= 1
    finally:
        for task in (traffic, running):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in (traffic, running) if task), return_exceptions=True)
        server.die()
        fleet.stop()


async def test_agents_find_the_fleet_by_the_configurations_written_for_them(tmp_path: Path) -> None:
    """Every deployment of every region is read in full by the real agent's own code, token files are private."""
    fleet = Fleet()
    places = await fleet.start()
    running = asyncio.create_task(fleet.run())
    try:
        write_places(tmp_path / "fleet.json", places)
        assert read_places(tmp_path / "fleet.json") == places
        tokens = {place.region: f"secret-{place.region}" for place in places.regions}
        paths = write_configurations(tmp_path / "agents", places, "http://127.0.0.1:9", tokens)
        assert len(paths) == len(REGIONS)
        for path in paths:
            collector = Collector(load(path))
            await collector.scrape_once()
            for summary in collector.summaries():
                assert summary.problems == ()
                assert summary.report.replicas.ready == summary.report.replicas.total > 0
                assert summary.report.running == 0.0
            await collector.close()
            assert path.with_suffix(".token").stat().st_mode & 0o077 == 0
        client = Client()
        answer = await client.request(("127.0.0.1", places.control_port), "GET", "/fleet")
        assert json.loads(answer.body)["failing"] is None
        client.close()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        fleet.stop()


async def test_a_client_replaces_a_kept_connection_that_was_closed_and_names_a_refused_one() -> None:
    """A server that restarted between two requests is no failure; one that is gone is."""

    async def handler(_request: Request) -> Response:
        return Response(200, b"{}")

    server, client = Server(handler), Client()
    await server.listen(0)
    address = ("127.0.0.1", server.port)
    assert (await client.request(address, "GET", "/")).status == 200
    server.die()
    await server.listen(address[1])
    assert (await client.request(address, "GET", "/")).status == 200
    server.die()
    with pytest.raises(Unreachable, match="connect"):
        await client.request(address, "GET", "/")
    client.close()


def test_the_progress_line_says_what_a_person_wants_to_know() -> None:
    """Rate, shares, overflow; trouble only where there is some."""
    progress = Progress(["eu-west-1", "us-east-1"])
    calm = Second(asked=10, decided=10, epoch=7)
    calm.regions.update({"eu-west-1": 8, "us-east-1": 2})
    calm.reasons.update({"home": 9, "overflow": 1})
    line = progress.line(calm, FleetStatus(running={"eu-west-1": 5}), 5)
    assert "10 req/s" in line
    assert "eu-west-1  80%" in line
    assert "overflow 10%" in line
    assert "plan 7" in line
    assert not any(word in line for word in ("refused", "failed", "FAILING", "STATIC"))
    bad = Second(asked=10, refused=3, lost=1, undecided=2, static=True)
    bad.failed["connect"] = 4
    line = progress.line(bad, FleetStatus("us-east-1", "dark", 4.2), 0)
    for part in ("refused 3", "failed connect 4", "lost 1", "undecided 2", "STATIC", "FAILING us-east-1 (dark, 4 s)"):
        assert part in line
