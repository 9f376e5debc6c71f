"""The agent's own `GET /metrics`: plain counters read when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from director.agent.config import OwnMetrics

if TYPE_CHECKING:
    from director.agent.run import Agent

log = structlog.get_logger(__name__)


class AgentCollector(Collector):
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Metric]:
        yield from self._scrapes()
        yield from self._reports()
        yield from self._deployments()
        gateway = self._agent.gateway
        if gateway is not None:
            up = GaugeMetricFamily("director_agent_gateway_up", "Whether the region's gateway answers; 0.5 when shaky")
            up.add_metric([], {"ok": 1.0, "degraded": 0.5, "down": 0.0}[gateway.health])
            yield up

    def _scrapes(self) -> Iterator[Metric]:
        collector = self._agent.collector
        voices = list(collector.voices())
        targets = GaugeMetricFamily("director_agent_targets", "Targets by whether they answer", labels=["state"])
        answering = sum(voice.reading is not None for voice in voices)
        targets.add_metric(["answering"], answering)
        targets.add_metric(["silent"], len(voices) - answering)
        yield targets
        yield CounterMetricFamily("director_agent_scrapes", "Scrapes begun", collector.scrapes)
        yield CounterMetricFamily("director_agent_scrapes_failed", "Scrapes without a dump", collector.scrapes_failed)

    def _reports(self) -> Iterator[Metric]:
        sent = CounterMetricFamily("director_agent_reports", "Reports by result", labels=["director", "result"])
        for sender in self._agent.senders:
            sent.add_metric([sender.director.url, "accepted"], sender.accepted)
            sent.add_metric([sender.director.url, "failed"], sender.failed)
            sent.add_metric([sender.director.url, "superseded"], sender.superseded)
        yield sent

    def _deployments(self) -> Iterator[Metric]:
        labels = ["model", "version"]
        ready = GaugeMetricFamily("director_agent_ready_replicas", "Ready replicas as reported", labels=labels)
        problems = GaugeMetricFamily("director_agent_problems", "Targets or sources with a problem", labels=labels)
        for summary in self._agent.summaries:
            key = [summary.report.model, summary.report.version]
            ready.add_metric(key, summary.report.replicas.ready)
            problems.add_metric(key, len(summary.problems))
        yield ready
        yield problems


async def serve_metrics(agent: Agent, where: OwnMetrics) -> None:
    """Until cancelled. A busy port costs the agent its metrics, not its reports."""
    registry = CollectorRegistry()
    registry.register(AgentCollector(agent))
    try:
        server, _ = start_http_server(where.port, addr=where.host, registry=registry)
    except OSError as error:
        log.error("metrics_port_busy", host=where.host, port=where.port, why=error.strerror)
        return
    try:
        await asyncio.Event().wait()
    finally:
        server.shutdown()
        server.server_close()
