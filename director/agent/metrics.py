"""The agent's own `GET /metrics`: plain counters read when asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from director.agent.config import OwnMetrics
from director.metrics import catalog, scrape
from director.metrics.process import process_text
from director.metrics.text import Page, labels

if TYPE_CHECKING:
    from director.agent.run import Agent

log = structlog.get_logger(__name__)


def exposition(agent: Agent) -> str:
    """Everything at this moment, in Prometheus's text format."""
    page = Page()
    _scrapes(page, agent)
    _reports(page, agent)
    _deployments(page, agent)
    gateway = agent.gateway
    if gateway is not None:
        page.one(catalog.AGENT_GATEWAY_UP, {"ok": 1.0, "degraded": 0.5, "down": 0.0}[gateway.health])
    return page.text() + process_text()


def _scrapes(page: Page, agent: Agent) -> None:
    collector = agent.collector
    voices = list(collector.voices())
    answering = sum(voice.reading is not None for voice in voices)
    targets = {"answering": answering, "silent": len(voices) - answering}
    page.many(catalog.AGENT_TARGETS, [(labels(catalog.AGENT_TARGETS, state=state), n) for state, n in targets.items()])
    page.one(catalog.AGENT_SCRAPES, collector.scrapes)
    page.one(catalog.AGENT_SCRAPES_FAILED, collector.scrapes_failed)


def _reports(page: Page, agent: Agent) -> None:
    page.many(
        catalog.AGENT_REPORTS,
        [
            (labels(catalog.AGENT_REPORTS, director=sender.director.url, result=result), count)
            for sender in agent.senders
            for result, count in (
                ("accepted", sender.accepted),
                ("failed", sender.failed),
                ("superseded", sender.superseded),
            )
        ],
    )


def _deployments(page: Page, agent: Agent) -> None:
    told = [
        (labels(catalog.AGENT_PROBLEMS, model=one.report.model, version=one.report.version), one)
        for one in agent.summaries
    ]
    page.many(catalog.AGENT_READY_REPLICAS, [(key, one.report.replicas.ready) for key, one in told])
    page.many(catalog.AGENT_PROBLEMS, [(key, len(one.problems)) for key, one in told])


async def serve_metrics(agent: Agent, where: OwnMetrics) -> None:
    """Until cancelled. A busy port costs the agent its metrics, not its reports."""
    try:
        server = await scrape.serve_metrics(lambda: exposition(agent), where.host, where.port)
    except OSError as error:
        log.error("metrics_port_busy", host=where.host, port=where.port, why=error.strerror)
        return
    async with server:
        await asyncio.Event().wait()
