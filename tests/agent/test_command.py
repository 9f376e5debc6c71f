"""`director agent`: shows once what it would report, refuses what it cannot use, outlives its director's absence."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
from click.testing import CliRunner

from director.agent.command import agent_command
from director.agent.config_file import load
from director.agent.gateway import GatewayWatch
from director.agent.run import Agent
from director.core.report import Report
from director.demo.wire import Request, Response, Server
from tests.agent.dumps import vllm_dump
from tests.agent.servers import saying, serving, until


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
        await until(lambda: received[-1].sequence > last, within_s=10.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    director.die()
    sequences = [report.sequence for report in received]
    assert sequences == sorted(set(sequences))
    assert {report.boot_id for report in received} == {agent.builder.boot_id}


async def test_a_gateway_goes_down_by_a_few_failures_and_back_by_one_answer(tmp_path: Path) -> None:
    """Shaky in between: one lost request takes no region out."""
    from director.agent.config import GatewayCheck
    from director.agent.fetch import Clients

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


async def test_a_gateway_may_be_asked_for_one_token() -> None:
    """A gateway can be fine before a model that is not."""
    from director.agent.config import GatewayCheck
    from director.agent.fetch import Clients

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
