"""A real HAProxy with the shipped configuration: `deploy/haproxy`, with this test's ports, callers and regions."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.l7.world import World
from tests.serve.processes import free_port, wait_for

SHIPPED = Path(__file__).parents[2] / "deploy" / "haproxy"
PROGRAM = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or "haproxy"


class Haproxy:
    def __init__(self, folder: Path, world: World, outcomes_port: int) -> None:
        self.folder = folder
        self.port = free_port()
        shutil.copytree(SHIPPED, folder)
        main = (folder / "haproxy.cfg").read_text()
        for shipped, here in (
            ("bind :8088", f"bind 127.0.0.1:{self.port}"),
            ("http://127.0.0.1:8080", f"http://127.0.0.1:{world.front.port}"),
            ("REPLACE-WITH-A-DECIDE-TOKEN", world.token("l7")),
            ("127.0.0.1:5140", f"127.0.0.1:{outcomes_port}"),
        ):
            assert shipped in main
            main = main.replace(shipped, here)
        (folder / "haproxy.cfg").write_text(main)
        with (folder / "callers.map").open("a") as callers:
            callers.write("key-of-globex globex\nkey-of-behoerde behoerde\nkey-of-narrowed acme\n")
        with (folder / "residency.map").open("a") as residency:
            residency.write("key-of-narrowed DE\n")
        (folder / "regions.cfg").write_text(world.fallbacks("haproxy"))
        (folder / "fallbacks.map").write_text(world.fallbacks("haproxy-map"))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [PROGRAM, "-f", "haproxy.cfg", "-f", "regions.cfg"]
        tested = subprocess.run([*words, "-c", "-q"], cwd=self.folder, capture_output=True, text=True)
        assert tested.returncode == 0, tested.stderr
        with (self.folder / "haproxy.log").open("wb") as log:
            self._process = subprocess.Popen([*words, "-db"], cwd=self.folder, stdin=subprocess.DEVNULL, stderr=log)
        wait_for(self.listens, why="HAProxy listens")

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)


@contextlib.contextmanager
def haproxy(folder: Path, world: World, outcomes_port: int) -> Iterator[Haproxy]:
    """Up and listening. Its log lines go to `outcomes_port`."""
    running = Haproxy(folder, world, outcomes_port)
    running.start()
    try:
        yield running
    finally:
        running.stop()
