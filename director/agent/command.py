"""`director agent`: run in a region, or show once what would be reported."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import click
import msgspec

from director.agent.config import AgentConfig, ConfigInvalid
from director.agent.config_file import load
from director.agent.summary import describe

REFUSED = 1
UNUSABLE = 2


@click.command("agent")
@click.option("-c", "--config", "path", required=True, type=click.Path(path_type=Path), help="YAML configuration")
@click.option("--once", is_flag=True, help="Scrape twice, report once, exit.")
@click.option("--print", "show", is_flag=True, help="With --once: show the report and where each figure came from.")
@click.option("--json", "as_json", is_flag=True, help="With --print: one JSON object.")
@click.option("--check", is_flag=True, help="Check the configuration and exit.")
def agent_command(path: Path, once: bool, show: bool, as_json: bool, check: bool) -> None:
    """Scrape this region's engines and report to the directors."""
    try:
        config = load(path)
    except ConfigInvalid as error:
        for problem in error.problems:
            click.echo(problem, err=True)
        sys.exit(UNUSABLE)
    _configure_log(config)
    if check:
        click.echo(f"{path}: fine")
    elif show or as_json:
        asyncio.run(_show(config, as_json))
    elif once:
        sys.exit(asyncio.run(_send_once(config)))
    else:
        asyncio.run(_run_until_told(config))


async def _run_until_told(config: AgentConfig) -> None:
    """SIGTERM and SIGINT end it: nothing needs saving, the next report is only a few seconds away."""
    from director.agent.run import run_agent

    task = asyncio.ensure_future(run_agent(config))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _send_once(config: AgentConfig) -> int:
    from director.agent.run import report_once, send_once

    once = await report_once(config)
    answers = await send_once(config, once.report)
    for director, answer in zip(config.directors, answers, strict=True):
        click.echo(f"{director.url}: {'accepted' if answer.accepted else answer.what}")
    return 0 if any(answer.accepted for answer in answers) else REFUSED


async def _show(config: AgentConfig, as_json: bool) -> None:
    from director.agent.run import report_once

    once = await report_once(config)
    problems = [problem for summary in once.summaries for problem in summary.problems]
    if once.gateway_problem:
        problems.append(once.gateway_problem)
    if as_json:
        origins = [{"model": s.report.model, "version": s.report.version, "origins": s.origins} for s in once.summaries]
        body = msgspec.json.encode({"report": once.report, "origins": origins, "problems": problems})
        click.echo(msgspec.json.format(body, indent=2).decode())
        return
    report = once.report
    click.echo(f"region {config.region}   health {report.health}   gateway {report.gateway}")
    for summary in once.summaries:
        deployment = summary.report
        click.echo(f"\n{deployment.model} {deployment.version}   engine {deployment.engine or 'unknown'}")
        for name, value, origin in describe(summary):
            click.echo(f"  {name:22} {_plain(value):44} {'← ' + origin if origin else ''}".rstrip())
    for problem in problems:
        click.echo(f"! {problem}")


def _plain(value: object) -> str:
    """A figure for a person: None is unknown, parts of a struct that are unknown are left out."""
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, msgspec.Struct):
        parts = [(name, getattr(value, name)) for name in value.__struct_fields__]
        return "  ".join(f"{name} {_plain(part)}" for name, part in parts if part is not None)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _configure_log(config: AgentConfig) -> None:
    import structlog

    renderer = (
        structlog.processors.JSONRenderer()
        if config.log == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
