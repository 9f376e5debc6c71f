"""A real request to the region's own gateway: models can be fine behind a dead one."""

from __future__ import annotations

import asyncio

import httpx
import structlog

from director.agent.config import GatewayCheck
from director.agent.fetch import Clients, retry_after_s
from director.core.report import Health

log = structlog.get_logger(__name__)


RETRY_AFTER_S_MAX = 300.0
"""A gateway's wish holds until its deadline, and a mistaken one (a day) must not outlive what made it by hours."""


class GatewayWatch:
    """`health` is `ok` until a request fails, `degraded` while few have, `down` after `failures_to_down` in a row.

    A gateway that is overloaded says so (429, or 503 with `Retry-After`): it is there, so this is no failure, and what
    it asks for is passed on with the region's deployments.
    """

    def __init__(self, check: GatewayCheck) -> None:
        self._check = check
        self._failures = 0
        self.problem: str | None = None
        self.retry_after_s: float | None = None
        """How long it asks to be left alone; None while it asks for nothing."""

    @property
    def health(self) -> Health:
        if not self._failures:
            return "ok" if self.problem is None else "degraded"
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
        answer = await self._answer(client)
        if isinstance(answer, str):
            self.problem, self.retry_after_s = answer, None
            self._failures += 1
        else:
            self._judge(answer)
        if self.health != before:
            log.warning("gateway_health", before=before, after=self.health, problem=self.problem)

    def _judge(self, response: httpx.Response) -> None:
        status, wait_s = response.status_code, retry_after_s(response)
        self.problem, self.retry_after_s = None, None
        if status == self._check.status:
            self._failures = 0
            return
        self.problem = f"gateway answered HTTP {status}, expected {self._check.status}"
        if status == httpx.codes.TOO_MANY_REQUESTS or (
            status == httpx.codes.SERVICE_UNAVAILABLE and wait_s is not None
        ):
            self._failures = 0
            self.retry_after_s = None if wait_s is None else min(wait_s, RETRY_AFTER_S_MAX)
        else:
            self._failures += 1

    async def _answer(self, client: httpx.AsyncClient) -> httpx.Response | str:
        """The response, or why there is none."""
        check = self._check
        try:
            async with asyncio.timeout(check.timeout_s):
                if check.completion_model is None:
                    return await client.get(check.url)
                body = {"model": check.completion_model, "prompt": "1", "max_tokens": 1}
                return await client.post(check.url, json=body)
        except TimeoutError:
            return f"gateway did not answer within {check.timeout_s:g} s"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return f"gateway: {error or type(error).__name__}"
