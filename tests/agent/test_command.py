"""`director agent`: shows once what it would report, refuses what it cannot use, outlives its director's absence."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import msgspec
import pytest
from click.testing import CliRunner

from director.agent.command import agent_command
from director.agent.config_file import load
from director.agent.fetch import Clients, retry_after_s
from director.agent.gateway import GatewayWatch
from director.agent.run import Agent
from director.core.report import Report
from director.demo.wire import Request, Response, Server
from tests.agent.dumps import vllm_dump
from tests.agent.servers import hanging, saying, serving, until
from tests.serve.processes import free_port


def write(path: Path, replica: str, director: str, more: str = "") -> Path:
    path.write_text(
        f"""
region: eu-west-1
interval_s: 0.5
scrape_timeout_s: 0.5
directors: [{{url: "{director}", token: t}}]
deployments:
  - {{model: llama-3.3-70b, version: "2026-08-14", replica_max_running: 8, sources: [{{static: ["{replica}"]}}]}}
{more}""",
        encoding="utf-8",
    )
    return path


async def run_command(*arguments: str) -> tuple[int, str, str]:
    result = await asyncio.to_thread(CliRunner().invoke, agent_command, arguments)
    return result.exit_code, result.stdout, result.stderr


async def test_once_print_shows_the_report_and_where_each_figure_came_from(tmp_path: Path) -> None:
    """For a person, and as JSON; nothing is sent."""
    async with serving(saying(vllm_dump())) as replica:
        path = write(tmp_path / "agent.yaml", replica, "http://127.0.0.1:9")
        code, text, _ = await run_command("-c", str(path), "--once", "--print")
        assert code == 0
        assert "← vllm:num_requests_running" in text
        code, text, _ = await run_command("-c", str(path), "--once", "--print", "--json")
    shown = json.loads(text)
    assert code == 0
    assert shown["report"]["deployments"][0]["running"] == 3.0
    assert shown["origins"][0]["origins"]["running"] == "vllm:num_requests_running"
    msgspec.convert(shown["report"], Report)


async def test_once_sends_one_report_and_says_whether_it_was_taken(tmp_path: Path) -> None:
    """Exit code 1 when no director took it."""
    async with serving(saying(vllm_dump())) as replica, serving(saying("{}", 202)) as director:
        code, text, _ = await run_command("-c", str(write(tmp_path / "a.yaml", replica, director)), "--once")
        assert (code, "accepted" in text) == (0, True)
        code, text, _ = await run_command(
            "-c", str(write(tmp_path / "a.yaml", replica, "http://127.0.0.1:9")), "--once"
        )
        assert (code, "ConnectError" in text) == (1, True)


async def test_a_configuration_that_cannot_be_used_is_exit_code_2_and_one_line(tmp_path: Path) -> None:
    """Nothing is scraped with half a configuration."""
    path = tmp_path / "agent.yaml"
    path.write_text("region: eu-west-1\n", encoding="utf-8")
    code, _, complaint = await run_command("-c", str(path))
    assert code == 2
    assert complaint.count("\n") == 1
    assert "directors" in complaint


async def test_an_agent_reports_while_it_runs_and_through_its_directors_absence(tmp_path: Path) -> None:
    """Reports come, stop while the director is away, and come again, newer than those that were missed."""
    received: list[Report] = []

    async def take(request: Request) -> Response:
        received.append(msgspec.json.decode(request.body, type=Report))
        return Response(202, b"{}")

    director = Server(take)
    await director.listen(0)
    async with serving(saying(vllm_dump())) as replica, serving(saying("", 500)) as gateway:
        more = f"gateway: {{url: {gateway}, interval_s: 0.5, failures_to_down: 1}}"
        config = load(write(tmp_path / "agent.yaml", replica, f"http://127.0.0.1:{director.port}", more))
        agent = Agent(config)
        running = asyncio.create_task(agent.run())
        await until(lambda: any(report.deployments[0].running == 3.0 for report in received))
        await until(lambda: received[-1].gateway == "down")
        director.die()
        sender = agent.senders[0]
        await until(lambda: sender.failures_in_row >= 1)
        last = received[-1].sequence
        await director.listen(director.port)
        await until(lambda: received[-1].sequence > last)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    director.die()
    sequences = [report.sequence for report in received]
    assert sequences == sorted(set(sequences))
    assert {report.boot_id for report in received} == {agent.builder.boot_id}


async def first_report(tmp_path: Path, *replicas: str, interval_s: float = 30.0) -> Report:
    received: list[Report] = []

    async def take(request: Request) -> Response:
        received.append(msgspec.json.decode(request.body, type=Report))
        return Response(202, b"{}")

    async with serving(take) as director:
        path = write(tmp_path / "agent.yaml", '", "'.join(replicas), director)
        text = path.read_text().replace("_s: 0.5\n", f"_s: {interval_s}\n")
        path.write_text(text)
        running = asyncio.create_task(Agent(load(path)).run())
        await until(lambda: received)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return received[0]


async def test_a_restarted_agent_takes_no_slow_replica_out(tmp_path: Path) -> None:
    """The first report waits for who answers late: it would call a region down whose replicas are fine."""

    async def slow(request: Request) -> Response:
        await asyncio.sleep(2.0)
        return await saying(vllm_dump())(request)

    async with serving(slow) as replica, serving(saying(vllm_dump())) as other:
        report = await first_report(tmp_path, replica, other)
    assert report.health == "ok"
    assert report.deployments[0].replicas.ready == 2


async def test_a_hung_replica_does_not_hold_the_first_report_for_ever(tmp_path: Path) -> None:
    """It was asked, and its time was up."""
    async with serving(hanging) as hung, serving(saying(vllm_dump())) as replica:
        report = await first_report(tmp_path, hung, replica, interval_s=1.5)
    assert (report.deployments[0].replicas.ready, report.deployments[0].replicas.total) == (1, 2)


async def test_a_gateway_goes_down_by_a_few_failures_and_back_by_one_answer(tmp_path: Path) -> None:
    """Shaky in between: one lost request takes no region out."""
    from director.agent.config import GatewayCheck

    statuses, clients = [200, 502, 502, 200], Clients()

    async def handler(_request: Request) -> Response:
        return Response(statuses.pop(0))

    async with serving(handler) as url:
        watch = GatewayWatch(GatewayCheck(url, failures_to_down=2))
        seen = []
        while statuses:
            await watch.ask(clients.of(url, None))
            seen.append(watch.health)
    await clients.close()
    assert seen == ["ok", "degraded", "down", "ok"]


@pytest.mark.parametrize(
    ("status", "told", "health", "retry_after_s"),
    [
        (429, "10", "degraded", 10.0),
        (429, None, "degraded", None),
        (503, "10", "degraded", 10.0),
        (503, "86400", "degraded", 300.0),
        (503, "soon", "down", None),
        (503, None, "down", None),
        (502, "10", "down", None),
    ],
)
async def test_d10_a_gateway_that_asks_to_wait_is_there_and_its_wish_is_reported(
    tmp_path: Path, status: int, told: str | None, health: str, retry_after_s: float | None
) -> None:
    """429, or 503 with a time: never down, and `retry_after_s` of every deployment; the next answer ends it."""
    answers = [Response(status, headers={} if told is None else {"retry-after": told})] * 3 + [Response(200)]

    async def handler(_request: Request) -> Response:
        return answers.pop(0)

    async with serving(handler) as url:
        more = f'gateway: {{url: "{url}", failures_to_down: 2}}'
        path = write(tmp_path / "agent.yaml", url, url, more)
        agent = Agent(load(path))
        assert agent.gateway is not None
        clients = Clients()
        for _ in range(3):
            await agent.gateway.ask(clients.of(url, None))
        pressed = agent.take_report()
        await agent.gateway.ask(clients.of(url, None))
        well = agent.take_report()
        await clients.close()
    assert (pressed.gateway, pressed.deployments[0].retry_after_s) == (health, retry_after_s)
    assert (well.gateway, well.deployments[0].retry_after_s) == ("ok", None)


async def test_a_gateway_may_name_a_date() -> None:
    """The header's other form."""
    moment = datetime.now(UTC) + timedelta(seconds=60)
    response = httpx.Response(503, headers={"retry-after": format_datetime(moment, usegmt=True)})
    assert retry_after_s(response) == pytest.approx(60.0, abs=5.0)
    assert retry_after_s(httpx.Response(503, headers={"retry-after": "nan"})) is None


async def test_a_gateway_may_be_asked_for_one_token() -> None:
    """A gateway can be fine before a model that is not."""
    from director.agent.config import GatewayCheck

    bodies: list[dict[str, object]] = []

    async def handler(request: Request) -> Response:
        bodies.append(json.loads(request.body))
        return Response(200, b"{}")

    clients = Clients()
    async with serving(handler) as url:
        watch = GatewayWatch(GatewayCheck(f"{url}/v1/completions", completion_model="m"))
        await watch.ask(clients.of(url, None))
    await clients.close()
    assert watch.health == "ok"
    assert bodies == [{"model": "m", "prompt": "1", "max_tokens": 1}]


async def test_the_agent_tells_its_own_metrics(tmp_path: Path) -> None:
    """Targets by state, scrapes, reports by result."""
    from director.agent.metrics import exposition

    async with serving(saying(vllm_dump())) as replica:
        agent = Agent(load(write(tmp_path / "agent.yaml", replica, "http://127.0.0.1:9")))
        await agent.collector.scrape_once()
        agent.take_report()
        text = exposition(agent)
        await agent.collector.close()
    assert 'director_agent_targets{state="answering"} 1.0' in text
    assert 'director_agent_ready_replicas{model="llama-3.3-70b",version="2026-08-14"} 1.0' in text


async def test_the_agents_metrics_are_served_where_the_configuration_says(tmp_path: Path) -> None:
    """Over HTTP, while it reports to a director that is not there."""
    port = free_port()
    async with serving(saying(vllm_dump())) as replica:
        more = f"metrics: {{port: {port}}}"
        path = write(tmp_path / "agent.yaml", replica, f"http://127.0.0.1:{free_port()}", more)
        agent = Agent(load(path))
        running = asyncio.create_task(agent.run())
        async with httpx.AsyncClient() as client:
            await until(lambda: agent.senders[0].failed)
            response = await client.get(f"http://127.0.0.1:{port}/metrics")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert response.status_code == 200
    assert re.search(r'director_agent_reports_total\{director="[^"]+",result="failed"\} [1-9]', response.text)
    assert 'director_agent_targets{state="answering"} 1.0' in response.text
