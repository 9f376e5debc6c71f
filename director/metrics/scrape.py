"""`GET /metrics` for processes that have no HTTP server: a port of its own, on the loop that counts.

No token is asked for, so it listens on the loopback address unless told otherwise. It tells figures, no secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from director.metrics.text import CONTENT_TYPE

REQUEST_BYTES_MAX = 8_192
REQUEST_S_MAX = 5.0


async def serve_metrics(render: Callable[[], str], host: str, port: int, *, threaded: bool = False) -> asyncio.Server:
    """Answer scrapes with what `render` returns; any other path is 404. `threaded`: render beside the loop.

    Raises OSError. Close the server to stop.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _reply(head, render, threaded))
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)


async def _reply(head: bytes, render: Callable[[], str], threaded: bool) -> bytes:
    found = head.split(b" ", 2)[:2] == [b"GET", b"/metrics"]
    if not found:
        status, text = "404 Not Found", ""
    else:
        status, text = "200 OK", await asyncio.to_thread(render) if threaded else render()
    body = text.encode()
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {CONTENT_TYPE}",
        "Connection: close",
        f"Content-Length: {len(body)}",
        "\r\n",
    )
    return "\r\n".join(lines).encode() + body
