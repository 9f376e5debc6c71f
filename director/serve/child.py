"""One process of the tree: started fresh, watched, started again with back-off, and never left behind.

A fresh interpreter rather than a fork: each role holds only what it imports itself, and inherits no connection.
The kernel ends a role when its supervisor is gone, however that went (see `die_with_parent`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time

import structlog

from director.serve.gate import Gate

SUPERVISOR_PID = "DIRECTOR_SUPERVISOR_PID"
UNUSABLE = 2
"""The exit code of a process that will never start as it was told to."""
BACK_OFF_S_MIN = 0.2
BACK_OFF_S_MAX = 10.0
STEADY_S = 30.0
"""A process that lived this long starts again at once the next time."""
STOP_S = 5.0
"""From SIGTERM to SIGKILL."""
_PR_SET_PDEATHSIG = 1

log = structlog.get_logger()


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its supervisor ends. Called by the child, first thing."""
    supervisor_pid = os.environ.get(SUPERVISOR_PID)
    if supervisor_pid is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(supervisor_pid):
        # The supervisor was gone before the kernel was asked.
        sys.exit(1)


def environment(**extra: str) -> dict[str, str]:
    """What a child sees: ours, our process id to die with, and one malloc arena (its threads are idle or brief)."""
    return {**os.environ, SUPERVISOR_PID: str(os.getpid()), "MALLOC_ARENA_MAX": "1", **extra}


async def start(module: str, arguments: list[str], env: dict[str, str], gate: Gate) -> asyncio.subprocess.Process:
    """`python -m MODULE ARGUMENTS`, in a process group of its own: Ctrl-C in a terminal reaches the supervisor alone,
    which stops the others in order."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        env={**env, **gate.environment},
        pass_fds=gate.pass_fds,
        process_group=0,
    )


class Child:
    """Keeps `director ARGUMENTS` running until stopped. It begins its work when the gate is open."""

    def __init__(self, name: str, arguments: list[str], env: dict[str, str], gate: Gate) -> None:
        self.name = name
        self._arguments = arguments
        self._env = env
        self._gate = gate
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self) -> int:
        """Start, and start again whenever it ends. Returns when stopped, or `UNUSABLE` when its first start says so.

        Later the same exit code is a passing one: what it was told was right once.
        """
        back_off_s = BACK_OFF_S_MIN
        first = True
        while not self._stopping.is_set():
            started_s = time.monotonic()
            self._process = await start("director", self._arguments, self._env, self._gate)
            code = await self._process.wait()
            if self._stopping.is_set():
                break
            if code == UNUSABLE and first:
                return UNUSABLE
            first = False
            lived_s = time.monotonic() - started_s
            back_off_s = BACK_OFF_S_MIN if lived_s >= STEADY_S else min(BACK_OFF_S_MAX, back_off_s * 2)
            log.error("process_ended", process=self.name, code=code, lived_s=round(lived_s, 1), again_in_s=back_off_s)
            await asyncio.sleep(back_off_s)
        return 0

    async def stop(self) -> None:
        """End it: politely, then not. No later start."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            log.warning("process_killed", process=self.name, after_s=STOP_S)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
