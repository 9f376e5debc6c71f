"""The agent as a whole: scrape, summarise, report, for as long as it runs."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import structlog

from director.agent.collect import Collector, supervised
from director.agent.config import AgentConfig
from director.agent.fetch import Clients
from director.agent.gateway import GatewayWatch
from director.agent.report import ReportBuilder
from director.agent.send import Answer, Sender, put_report
from director.agent.summary import Summary
from director.core.report import Report

log = structlog.get_logger(__name__)

ONCE_PAUSE_S_MAX = 5.0
"""Between the two scrapes of `--once`: rates need two."""


FIRST_REPORT_S_MAX = 10.0
"""A source that cannot even be looked up holds the first report up no longer than this, or one interval."""


class Once(NamedTuple):
    """What one report says, and why."""

    report: Report
    summaries: list[Summary]
    gateway_problem: str | None


class Agent:
    """Made from a configuration, run by `run`. `region`, `senders` and `collector` may be read at any time."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.collector = Collector(config)
        self.gateway = GatewayWatch(config.gateway) if config.gateway is not None else None
        self.builder = ReportBuilder(config.interval_s)
        self._clients = Clients()
        self.senders = [Sender(director, config.region, self._clients) for director in config.directors]
        self.summaries: list[Summary] = []
        self._said: dict[tuple[str, str], tuple[str, ...]] = {}

    async def run(self) -> None:
        """Until cancelled."""
        log.info("agent_started", region=self.config.region, boot_id=self.builder.boot_id)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervised("scrape", self.collector.run))
                group.create_task(supervised("report", self._report))
                for sender in self.senders:
                    group.create_task(supervised("send", sender.run))
                if self.gateway is not None:
                    group.create_task(supervised("gateway", self.gateway.run))
                if self.config.metrics is not None:
                    from director.agent.metrics import serve_metrics

                    group.create_task(serve_metrics(self, self.config.metrics))
        finally:
            await self._clients.close()

    async def _report(self) -> None:
        """The first report goes out when everybody was asked once, the rest on the interval whatever a send takes.

        A report before that would call each replica that takes its time not ready, and so the region down.
        """
        interval_s = self.config.interval_s
        latest_s = time.monotonic() + min(interval_s, FIRST_REPORT_S_MAX)
        while not self.collector.asked_everybody and time.monotonic() < latest_s:
            await asyncio.sleep(0.05)
        next_s = time.monotonic()
        while True:
            report = self.take_report()
            for sender in self.senders:
                sender.offer(report)
            next_s = max(next_s + interval_s, time.monotonic())
            await asyncio.sleep(next_s - time.monotonic())

    def take_report(self) -> Report:
        self.summaries = self.collector.summaries()
        self._log_problems()
        return build_report(self.builder, self.summaries, self.gateway)

    def _log_problems(self) -> None:
        """Each change of what is wrong, once."""
        for summary in self.summaries:
            key = (summary.report.model, summary.report.version)
            if self._said.get(key, ()) != summary.problems:
                log.warning("deployment_problems", model=key[0], version=key[1], problems=list(summary.problems))
                self._said[key] = summary.problems


def build_report(builder: ReportBuilder, summaries: list[Summary], gateway: GatewayWatch | None) -> Report:
    if gateway is None:
        return builder.build(summaries, "ok")
    return builder.build(summaries, gateway.health, gateway.retry_after_s)


async def run_agent(config: AgentConfig) -> None:
    """Runs an agent until cancelled."""
    await Agent(config).run()


async def report_once(config: AgentConfig) -> Once:
    """Two scrapes, so that rates are there, and the report they make."""
    collector = Collector(config)
    gateway = GatewayWatch(config.gateway) if config.gateway is not None else None
    clients = Clients()
    try:
        await collector.scrape_once()
        if gateway is not None and config.gateway is not None:
            await gateway.ask(clients.of(config.gateway.url, config.gateway.tls))
        if config.deployments:
            await asyncio.sleep(min(config.interval_s, ONCE_PAUSE_S_MAX))
            await collector.scrape_once()
        summaries = collector.summaries()
        report = build_report(ReportBuilder(config.interval_s), summaries, gateway)
        return Once(report, summaries, gateway.problem if gateway is not None else None)
    finally:
        await collector.close()
        await clients.close()


async def send_once(config: AgentConfig, report: Report) -> list[Answer]:
    """One attempt at each director, all at the same time."""
    clients = Clients()
    try:
        return list(
            await asyncio.gather(
                *(put_report(clients.of(d.url, d.tls), d, config.region, report) for d in config.directors)
            )
        )
    finally:
        await clients.close()
