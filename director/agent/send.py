"""Reports → directors. One sender for each, so that a silent one holds up nobody.

There is no backlog: a sender keeps the newest report only. What a region was like a minute ago helps no one, and a
director that comes back must not be met by every agent's past.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import httpx
import msgspec
import structlog

from director.agent.config import DirectorEndpoint
from director.agent.fetch import Clients, retry_after_s
from director.core.report import Report

log = structlog.get_logger(__name__)

BACKOFF_S_MIN = 0.5
BACKOFF_S_MAX = 10.0
"""Well below `lost_after_s`: a director that returns must hear from its regions before it loses them."""


class TokenMissing(Exception):
    """The token cannot be had; the text says from where."""


def read_token(director: DirectorEndpoint) -> str:
    """Raises `TokenMissing`."""
    if director.token is not None:
        return director.token
    if director.token_env is not None:
        token = os.environ.get(director.token_env, "")
        if not token:
            raise TokenMissing(f"environment variable {director.token_env} is empty")
        return token
    try:
        return Path(director.token_file or "").read_text(encoding="utf-8").strip()
    except OSError as error:
        raise TokenMissing(f"token_file {director.token_file}: {error.strerror}") from error


class Answer(msgspec.Struct, frozen=True):
    """How one attempt went. `again` asks for another attempt, no sooner than `retry_after_s`."""

    accepted: bool
    again: bool
    what: str
    retry_after_s: float | None = None


async def put_report(client: httpx.AsyncClient, director: DirectorEndpoint, region: str, report: Report) -> Answer:
    """One attempt. Never raises for what the network or the director does."""
    url = f"{director.url.rstrip('/')}/regions/{region}/report"
    try:
        token = await asyncio.to_thread(read_token, director)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        async with asyncio.timeout(director.timeout_s):
            response = await client.put(url, content=msgspec.json.encode(report), headers=headers)
    except TokenMissing as error:
        return Answer(False, True, str(error))
    except TimeoutError:
        return Answer(False, True, f"no answer within {director.timeout_s:g} s")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return Answer(False, True, f"{type(error).__name__}: {error}")
    return _judge(response)


def _judge(response: httpx.Response) -> Answer:
    status = response.status_code
    text = response.text[:500]
    if status in (200, 202):
        return Answer(True, False, text)
    if status == 409:
        return Answer(False, False, "a newer report of this boot is there already")
    if status in (400, 413, 422):
        return Answer(False, False, f"refused: HTTP {status} {text}")
    return Answer(False, True, f"HTTP {status} {text}", retry_after_s(response))


def backoff_s(failures: int, random_01: float, retry_after_s: float | None = None) -> float:
    """Doubles from `BACKOFF_S_MIN` to `BACKOFF_S_MAX`, between half and all of it; later where the director asks."""
    ceiling_s = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2.0 ** min(failures - 1, 10))
    return max(ceiling_s * (0.5 + 0.5 * random_01), min(retry_after_s or 0.0, BACKOFF_S_MAX))


class Sender:
    """Sends what it was last offered. `run` it beside the rest."""

    def __init__(self, director: DirectorEndpoint, region: str, clients: Clients) -> None:
        self.director = director
        self._region = region
        self._client = clients.of(director.url, director.tls)
        self._newest: Report | None = None
        self._offered = asyncio.Event()
        self.accepted = 0
        self.failed = 0
        self.failures_in_row = 0
        self.superseded = 0
        """Reports that a newer one replaced before they were sent."""

    def offer(self, report: Report) -> None:
        if self._newest is not None:
            self.superseded += 1
        self._newest = report
        self._offered.set()

    async def run(self) -> None:
        while True:
            await self._offered.wait()
            await self.send_newest()

    async def send_newest(self) -> None:
        """One attempt with the newest report, and the wait after a failed one."""
        report = self._newest
        self._newest = None
        self._offered.clear()
        if report is None:
            return
        answer = await put_report(self._client, self.director, self._region, report)
        self._note(answer)
        if not answer.again:
            return
        await asyncio.sleep(backoff_s(self.failures_in_row, random.random(), answer.retry_after_s))
        if self._newest is None:
            self._newest = report
            self._offered.set()

    def _note(self, answer: Answer) -> None:
        if answer.accepted:
            if self.failures_in_row:
                log.info("director_back", director=self.director.url, failures=self.failures_in_row)
            self.accepted += 1
            self.failures_in_row = 0
            self._note_warnings(answer.what)
            return
        self.failed += 1
        self.failures_in_row += 1
        if self.failures_in_row == 1 or self.failures_in_row % 10 == 0:
            log.warning("report_not_taken", director=self.director.url, why=answer.what, in_row=self.failures_in_row)

    def _note_warnings(self, text: str) -> None:
        try:
            body = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return
        if isinstance(body, dict) and (body.get("dropped") or body.get("warnings")):
            log.warning("report_taken_in_part", dropped=body.get("dropped"), warnings=body.get("warnings"))
