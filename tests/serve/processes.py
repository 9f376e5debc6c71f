"""Real director processes for tests: started in a folder of their own, and none left behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

KERNELS_PORTS = range(*map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()))
"""Those that outgoing connections get."""
PORTS = range(10_000, max(11_000, KERNELS_PORTS.start))
_chance = random.SystemRandom()
"""Not the shared generator, which property tests seed: two test runs at once would be given the same ports."""


class Director:
    """One `director …` command running in the background; its output is in `log_path`."""

    def __init__(self, arguments: list[str], log_path: Path, env: dict[str, str] | None = None) -> None:
        self.log_path = log_path
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DIRECTOR_")}
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "director", *arguments],
                env={**environment, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=log_path.parent,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, within_s: float = 20.0) -> int:
        """SIGTERM, and its exit code."""
        self.process.terminate()
        return self.process.wait(within_s)

    def end(self) -> None:
        """Whatever state it is in: gone."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
                self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def director(arguments: list[str], log_path: Path, env: dict[str, str] | None = None) -> Iterator[Director]:
    running = Director(arguments, log_path, env)
    try:
        yield running
    finally:
        running.end()


def free_port() -> int:
    """A port that is free for TCP and UDP, and stays so until it is used.

    Not one that the kernel would choose: that may be the local end of anybody's connection a moment later, and for a
    minute after the connection has ended nobody can listen on it.
    """
    while True:
        port = _chance.choice(PORTS)
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
            tcp.bind(("127.0.0.1", port))
            udp.bind(("127.0.0.1", port))
            return port


def wait_for(what: Callable[[], T | None], within_s: float = 60.0, every_s: float = 0.05, why: str = "") -> T:
    """Ask until the answer is truthy; AssertionError after the deadline."""
    deadline_s = time.monotonic() + within_s
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < deadline_s, why or "did not come true in time"
        time.sleep(every_s)


def wait_for_answer(running: Director, what: Callable[[], T | None], within_s: float = 90.0, why: str = "") -> T:
    """The same of a director that starts: one that has ended is not waited for, and says in its log why it did."""

    def answer() -> T | None:
        code = running.process.poll()
        assert code is None, f"it ended with code {code}"
        return what()

    try:
        return wait_for(answer, within_s, why=why)
    except AssertionError as error:
        raise AssertionError(f"{error}; its log: {running.log[-2_000:]}") from error


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """Every living descendant."""
    by_parent: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                by_parent.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = by_parent.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
