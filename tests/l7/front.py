"""What stands between a proxy and its director in these tests: a door that can be open, shut, or open to nobody."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Literal

Mode = Literal["open", "refuse", "hang"]


class Front:
    """Forwards TCP to `target`. `refuse` resets each connection at once; `hang` accepts and never says a word.

    A change of mode ends the connections that stand, as a director that dies or freezes would.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._mode: Mode = "open"
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self.port = 0
        self.sent = bytearray()
        """What proxies said to the director, since `forget`."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait(5)

    def set(self, mode: Mode) -> None:
        asyncio.run_coroutine_threadsafe(self._set(mode), self._loop).result(5)

    @contextlib.contextmanager
    def being(self, mode: Mode) -> Iterator[None]:
        self.set(mode)
        try:
            yield
        finally:
            self.set("open")

    @property
    def asked(self) -> int:
        """How often the director was asked, since `forget`."""
        return self.sent.count(b" /select-region")

    def forget(self) -> None:
        self.sent.clear()

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    async def _set(self, mode: Mode) -> None:
        self._mode = mode
        for writer in tuple(self._writers):
            writer.transport.abort()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "refuse":
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            if self._mode == "hang":
                while data := await reader.read(65536):
                    self.sent += data
                return
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(inner_writer)
            try:
                await asyncio.gather(_pump(reader, inner_writer, self.sent), _pump(inner_reader, writer))
            finally:
                self._writers.discard(inner_writer)
                inner_writer.close()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray | None = None) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            if kept is not None:
                kept += data
            writer.write(data)
            await writer.drain()
    writer.close()
