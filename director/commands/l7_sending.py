"""The loop of `director l7 outcomes`: datagrams or lines in, a batch a second out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import structlog

from director.commands.l7_outcomes import Tally, total

log = structlog.get_logger(__name__)

SEND_TIMEOUT_S = 2.0
BATCH_AGE_S_MAX = 10.0
"""What happened longer ago than this would be news of a region as it was: dropped, and said so."""
RECEIVE_BYTES = 4 * 1024 * 1024
"""The socket's buffer: some 8,000 lines, so that a busy second is not lost while a batch is encoded."""

Place = tuple[str, int] | str
"""A UDP address, or the path of a Unix datagram socket."""


class Destination(NamedTuple):
    url: str
    token: str
    reporter: str


def place_of(text: str) -> Place:
    """Raises ValueError."""
    if text.startswith("unix:") and len(text) > len("unix:"):
        return text.removeprefix("unix:")
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"expected host:port or unix:PATH, got {text!r}")
    return host.strip("[]"), int(port)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._tally.add(data)


class Batch(NamedTuple):
    id: str
    outcomes: list[dict[str, Any]]
    made_s: float


async def forward(to: Destination, place: Place | None, every_s: float) -> None:
    """Until SIGTERM, SIGINT or the end of standard input; what came by then is sent. Raises OSError for the socket."""
    tally = Tally()
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=SEND_TIMEOUT_S))
        if place is not None:
            stack.callback((await _listen(place, tally)).close)
        else:
            reading = asyncio.create_task(_read_stdin(tally, over))
            stack.callback(reading.cancel)
        log.info("outcomes_forwarding", reporter=to.reporter, listen=place or "stdin", to=to.url)
        waiting: Batch | None = None
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), every_s)
            waiting = await _send_some(client, to, tally, waiting, loop.time())
        if waiting is not None:
            await _send_some(client, to, tally, waiting, loop.time())
        await _send_some(client, to, tally, None, loop.time())


async def _send_some(
    client: httpx.AsyncClient, to: Destination, tally: Tally, waiting: Batch | None, now_s: float
) -> Batch | None:
    """Send the batch that waits, else the next one. What is to be sent again comes back, under the same id."""
    if waiting is None:
        outcomes = tally.take()
        if not outcomes:
            return None
        waiting = Batch(uuid4().hex, outcomes, now_s)
    if await _post(client, to, waiting):
        return None
    if now_s - waiting.made_s < BATCH_AGE_S_MAX:
        return waiting
    log.warning("outcomes_dropped", batch=waiting.id, age_s=round(now_s - waiting.made_s, 1), **total(waiting.outcomes))
    return None


async def _post(client: httpx.AsyncClient, to: Destination, batch: Batch) -> bool:
    """Whether this batch is dealt with: taken, or refused for good."""
    body = {"reporter": to.reporter, "batch": batch.id, "outcomes": batch.outcomes}
    try:
        response = await client.post(f"{to.url}/outcomes", json=body, headers={"Authorization": f"Bearer {to.token}"})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        log.warning("outcomes_unsent", batch=batch.id, why=str(error) or type(error).__name__)
        return False
    if response.is_success:
        return True
    log.warning("outcomes_refused", batch=batch.id, status=response.status_code, answer=response.text[:300])
    return response.status_code in (400, 413, 422)


async def _listen(place: Place, tally: Tally) -> asyncio.DatagramTransport:
    loop = asyncio.get_running_loop()
    if isinstance(place, str):
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        Path(place).unlink(missing_ok=True)
        listening.bind(place)
        # The proxy's workers run as another user.
        os.chmod(place, 0o666)  # noqa: S103
    else:
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_DGRAM)
        listening.bind(place)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    listening.setblocking(False)
    transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(tally), sock=listening)
    return transport


async def _read_stdin(tally: Tally, over: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        while line := await reader.readline():
            tally.add(line)
    finally:
        over.set()
