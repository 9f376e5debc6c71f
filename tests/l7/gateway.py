"""A region's gateway as a proxy meets it: it streams tokens, and can be told to fail in several ways.

Run as a process of its own, so that it can be killed in the middle of a stream: `python gateway.py REGION PORT`.
`POST …/completions` streams `max_tokens` events, `gap_ms` apart, and then `[DONE]`. `PUT /fault {"status": 503,
"retry_after": "10"}` makes it answer that instead; `{}` ends it. `GET /seen` lists the last requests' headers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

SEEN_MAX = 200


class Gateway:
    def __init__(self, region: str) -> None:
        self.region = region
        self.fault: dict[str, Any] = {}
        self.seen: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await self._body(reader, headers)
        if path == "/fault":
            self.fault = json.loads(body)
            return await _plain(writer, 200, {})
        if path == "/seen":
            return await _plain(writer, 200, self.seen)
        self.seen = [
            *self.seen[1 - SEEN_MAX :],
            {"method": method, "path": path, "headers": headers, "body_bytes": len(body)},
        ]
        if self.fault:
            more = [f"Retry-After: {self.fault['retry_after']}"] if "retry_after" in self.fault else []
            return await _plain(writer, self.fault["status"], {"error": "a fault"}, more)
        asked = json.loads(body) if body else {}
        await self._stream(writer, asked)
        return headers.get("connection", "").lower() != "close"

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while size := int((await reader.readline()).strip() or b"0", 16):
                parts.append(await reader.readexactly(size))
                await reader.readline()
            await reader.readline()
            return b"".join(parts)
        return await reader.readexactly(int(headers.get("content-length", "0")))

    async def _stream(self, writer: asyncio.StreamWriter, asked: dict[str, Any]) -> None:
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Gateway: {self.region}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        for number in range(int(asked.get("max_tokens", 3))):
            if number:
                await asyncio.sleep(asked.get("gap_ms", 0) / 1000)
            _chunk(writer, f"data: {json.dumps({'region': self.region, 'token': number})}\n\n")
            await writer.drain()
        _chunk(writer, "data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _chunk(writer: asyncio.StreamWriter, text: str) -> None:
    writer.write(f"{len(text.encode()):x}\r\n{text}\r\n".encode())


async def _plain(writer: asyncio.StreamWriter, status: int, value: Any, more: list[str] | None = None) -> bool:
    body = json.dumps(value).encode()
    lines = [f"HTTP/1.1 {status} Told", "Content-Type: application/json", f"Content-Length: {len(body)}", *(more or [])]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()
    return True


async def main(region: str, port: int) -> None:
    server = await asyncio.start_server(Gateway(region).serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
