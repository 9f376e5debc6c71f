"""HTTP clients, and a bounded GET: a replica that hangs or floods delays nobody else."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from director.agent.config import Tls
from director.agent.exposition import NotUnderstood

DUMP_BYTES_MAX = 16 * 1024 * 1024
"""A full vLLM dump is some 60 kB; a picker's with many tenants a few hundred."""

ACCEPT = "text/plain;version=0.0.4"
"""The plain format: OpenMetrics adds exemplars that nobody here reads."""


class NoAnswer(Exception):
    """No usable dump. `certain`: nobody listens there, so that the next try is not worth waiting for."""

    def __init__(self, problem: str, *, certain: bool = False) -> None:
        super().__init__(problem)
        self.certain = certain


def ssl_context(tls: Tls | None) -> ssl.SSLContext:
    """The system's authorities, or the configured one, with the client certificate if there is one."""
    context = ssl.create_default_context(cafile=tls.ca_file if tls is not None else None)
    if tls is not None and tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def retry_after_s(response: httpx.Response) -> float | None:
    """How long the answer asks to wait, told in seconds or as a date; None where it does not say."""
    told = response.headers.get("retry-after", "")
    try:
        wait_s = float(told)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(told).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, wait_s) if math.isfinite(wait_s) else None


class Clients:
    """An httpx client for each host and set of certificates, kept alive.

    Not one for all: httpx's pool walks over all its connections for each request, which with two hundred replicas costs
    more than the rest of a scrape. Certificates are loaded once for all hosts.
    """

    def __init__(self) -> None:
        self._contexts: dict[Tls | None, ssl.SSLContext] = {}
        self._clients: dict[tuple[str, Tls | None], httpx.AsyncClient] = {}

    def of(self, url: str, tls: Tls | None) -> httpx.AsyncClient:
        key = (origin(url), tls)
        if key not in self._clients:
            self._clients[key] = httpx.AsyncClient(
                verify=self._context(tls) if url.startswith("https:") else False,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=60.0),
                timeout=None,  # noqa: S113  each call is bounded as a whole by its caller
                trust_env=False,
                follow_redirects=False,
                headers={"user-agent": "region-director-agent"},
            )
        return self._clients[key]

    def _context(self, tls: Tls | None) -> ssl.SSLContext:
        if tls not in self._contexts:
            self._contexts[tls] = ssl_context(tls)
        return self._contexts[tls]

    async def drop(self, url: str, tls: Tls | None) -> None:
        """Nothing of that host is asked any more."""
        client = self._clients.pop((origin(url), tls), None)
        if client is not None:
            await client.aclose()

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()


async def fetch_text(client: httpx.AsyncClient, url: str, timeout_s: float, when_missing: str = "") -> str:
    """The text at `url`. Raises `NoAnswer`, or `NotUnderstood` where something answers that is not metrics.

    The time limit is on the whole exchange: an httpx timeout starts anew with every chunk of a dripping server.
    """
    try:
        async with asyncio.timeout(timeout_s), client.stream("GET", url, headers={"accept": ACCEPT}) as response:
            if response.status_code != httpx.codes.OK:
                raise _refused(response.status_code, when_missing)
            chunks, size = [], 0
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > DUMP_BYTES_MAX:
                    raise NotUnderstood(f"answered more than {DUMP_BYTES_MAX} bytes")
                chunks.append(chunk)
    except TimeoutError as error:
        raise NoAnswer(f"did not answer within {timeout_s:g} s") from error
    except httpx.ConnectError as error:
        raise NoAnswer(f"refused the connection ({error})", certain=True) from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise NoAnswer(f"broke off: {error or type(error).__name__}") from error
    return b"".join(chunks).decode("utf-8", "replace")


def _refused(status: int, when_missing: str) -> Exception:
    if status in (404, 410):
        return NotUnderstood(f"has no metrics there (HTTP {status}){'; ' if when_missing else ''}{when_missing}")
    if status in (401, 403):
        return NotUnderstood(f"does not let the agent read its metrics (HTTP {status})")
    return NoAnswer(f"answered HTTP {status}")
