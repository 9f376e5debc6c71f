"""The demo's child processes: each with a log file, a process group of its own, and no life beyond ours."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

STOP_S = 12.0
"""From SIGTERM to SIGKILL: the director's own tree takes its time to stop Postgres."""

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Runs in the child before it becomes its program: the kernel ends it when we are gone, however that went."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Process:
    """`python -m` something, its output in a log file."""

    def __init__(self, name: str, arguments: list[str], log: Path, env: dict[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        self._arguments = arguments
        self._env = env
        self._process: asyncio.subprocess.Process | None = None

    @property
    def returncode(self) -> int | None:
        return self._process.returncode if self._process is not None else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *self._arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(self._env or {})},
                process_group=0,
                preexec_fn=_die_with_parent,
            )

    async def wait(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return await self._process.wait()

    async def stop(self) -> None:
        """Politely, then with its whole group."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def last_line(self) -> str:
        """What it said last to a person, else in its log: the one line that tells why it ended."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            return ""
        plain = [line for line in lines if not line.startswith("{")]
        return (plain or lines or [""])[-1]
