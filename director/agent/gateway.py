"""A real request to the region's own gateway: models can be fine behind a dead one."""

from __future__ import annotations

import asyncio

import httpx
import structlog

from director.agent.config import GatewayCheck
from director.agent.fetch import Clients
from director.core.report import Health

log = structlog.get_logger(__name__)


class GatewayWatch:
    """`health` is `ok` until a request fails, `degraded` while few have, `down` after `failures_to_down` in a row."""

    def __init__(self, check: GatewayCheck) -> None:
        self._check = check
        self._failures = 0
        self.problem: str | None = None

    @property
    def health(self) -> Health:
        if not self._failures:
            return "ok"
        return "down" if self._failures >= self._check.failures_to_down else "degraded"

    async def run(self) -> None:
        clients = Clients()
        try:
            while True:
                await self.ask(clients.of(self._check.url, self._check.tls))
                await asyncio.sleep(self._check.interval_s)
        finally:
            await clients.close()

    async def ask(self, client: httpx.AsyncClient) -> None:
        """One request; notes how it went."""
        before = self.health
        problem = await self._problem(client)
        self._failures = 0 if problem is None else self._failures + 1
        self.problem = problem
        if self.health != before:
            log.warning("gateway_health", before=before, after=self.health, problem=problem)

    async def _problem(self, client: httpx.AsyncClient) -> str | None:
        check = self._check
        try:
            async with asyncio.timeout(check.timeout_s):
                if check.completion_model is None:
                    response = await client.get(check.url)
                else:
                    body = {"model": check.completion_model, "prompt": "1", "max_tokens": 1}
                    response = await client.post(check.url, json=body)
        except TimeoutError:
            return f"gateway did not answer within {check.timeout_s:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return f"gateway: {error or type(error).__name__}"
        if response.status_code != check.status:
            return f"gateway answered HTTP {response.status_code}, expected {check.status}"
        return None
