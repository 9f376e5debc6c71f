"""A real NGINX with the shipped configuration: `deploy/nginx` as it is, and a `site/` of this test's own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.l7.world import World
from tests.serve.processes import children, free_port, wait_for

SHIPPED = Path(__file__).parents[2] / "deploy" / "nginx"
PROGRAM = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or "nginx"

CALLERS = """
    "Bearer demo-key-of-open" open;
    "Bearer key-of-globex" globex;
    "Bearer key-of-behoerde" behoerde;
    "Bearer key-of-narrowed" acme;
"""
NARROWED_BEFORE = "$director_residency {"
NARROWED = """
    "Bearer key-of-narrowed" DE;
"""


class Nginx:
    def __init__(self, folder: Path, variant: str, world: World, token_name: str, outcomes_port: int | None) -> None:
        self.folder = folder
        self.variant = variant
        self.port = free_port()
        shutil.copytree(SHIPPED, folder, dirs_exist_ok=True)
        site = folder / "site"
        (folder / "cache").mkdir()
        user = "user root;\n" if os.geteuid() == 0 else ""
        self.write(
            "main.conf", f"{user}worker_processes 1;\npid {folder}/nginx.pid;\nerror_log {folder}/error.log info;\n"
        )
        paths = (site / "paths.conf").read_text().replace("/var/cache/nginx/director", f"{folder}/cache")
        temps = "".join(
            f"{kind}_temp_path {folder}/temp_{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        self.write("paths.conf", paths + temps)
        director = (site / "director.conf").read_text()
        director = director.replace("127.0.0.1:8080", f"127.0.0.1:{world.front.port}")
        self.write("director.conf", director.replace("REPLACE-WITH-A-DECIDE-TOKEN", world.token(token_name)))
        callers = (site / "callers.conf").read_text()
        callers = callers.replace('"Bearer demo-key-of-open" open;', CALLERS)
        self.write("callers.conf", callers.replace(NARROWED_BEFORE, NARROWED_BEFORE + NARROWED))
        self.write("listen.conf", f"listen 127.0.0.1:{self.port};\nclient_max_body_size 16m;\n")
        self.write("fallbacks.conf", world.fallbacks("nginx"))
        to = (
            f"syslog:server=127.0.0.1:{outcomes_port},nohostname,tag=director"
            if outcomes_port
            else f"{folder}/outcomes.log"
        )
        self.write("outcomes.conf", f"access_log {to} director;\n")
        self._process: subprocess.Popen[bytes] | None = None

    def write(self, name: str, text: str) -> None:
        (self.folder / "site" / name).write_text(text)

    @property
    def command(self) -> list[str]:
        return [
            PROGRAM,
            "-p",
            str(self.folder),
            "-c",
            str(self.folder / f"{self.variant}.conf"),
            "-e",
            str(self.folder / "error.log"),
        ]

    def start(self) -> None:
        tested = subprocess.run([*self.command, "-t"], capture_output=True, text=True)
        assert tested.returncode == 0, tested.stderr
        self._process = subprocess.Popen([*self.command, "-g", "daemon off;"], stdin=subprocess.DEVNULL)
        wait_for(self.listens, why="NGINX listens")

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def reload(self) -> None:
        """The new configuration, and nobody left of the old one: a kept connection to it would break off."""
        assert self._process is not None
        master = self._process.pid
        before = set(children(master))
        subprocess.run([*self.command, "-s", "reload"], check=True)
        wait_for(lambda: not before & set(children(master)), why="the old workers are gone")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)

    def errors(self) -> str:
        return (self.folder / "error.log").read_text()


@contextlib.contextmanager
def nginx(
    folder: Path, variant: str, world: World, *, token_name: str = "l7", outcomes_port: int | None = None, **site: str
) -> Iterator[Nginx]:
    """Up and listening. `site`: further files of `site/`, without `.conf`."""
    running = Nginx(folder, variant, world, token_name, outcomes_port)
    for name, text in site.items():
        running.write(f"{name}.conf", text)
    running.start()
    try:
        yield running
    finally:
        running.stop()
