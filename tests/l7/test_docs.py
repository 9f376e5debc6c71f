"""docs/l7.md is executed: its commands, in order, from nothing to an answer."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from director.serve import running
from tests.l7.world import World
from tests.serve.processes import free_port, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.system]

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "l7.md").read_text(), re.S)


class Shell:
    """One bash after the other through the page. Ports and paths are this test's own; all else is as written."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder = folder
        self.port, self.outcomes_port = free_port(), free_port()
        self._director = f"127.0.0.1:{world.front.port}"
        program = folder / "bin" / "director"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m director "$@"\n')
        program.chmod(0o755)
        found = running.read(world.tree.data)
        assert found is not None
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DIRECTOR_")}
        self._env = {
            **clean,
            "PATH": f"{program.parent}:{clean['PATH']}:/usr/sbin",
            "DIRECTOR_DATABASE_URL": found.database_url,
            "DIRECTOR_URL": world.url,
        }
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        self._state = folder / "environment"
        self._state.write_text("")

    def run(self, block: str) -> str:
        here = block.replace(":8088", f":{self.port}").replace("127.0.0.1:5140", f"127.0.0.1:{self.outcomes_port}")
        script = f"set -euo pipefail\nsource {self._state}\n{here}\ndeclare -p DIRECTOR_TOKEN > {self._state}\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}"
        return done.stdout

    def settle_in(self) -> None:
        """What the page leaves to the reader: ports, and places where this user may write."""
        site = self.folder / "edge" / "site"
        user = "user root;\n" if os.geteuid() == 0 else ""
        (site / "main.conf").write_text(f"{user}pid {self.folder}/nginx.pid;\nerror_log {self.folder}/error.log;\n")
        paths = (site / "paths.conf").read_text().replace("/var/cache/nginx/director", f"{self.folder}/cache")
        temps = [f"{k}_temp_path {self.folder}/t_{k};\n" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
        (site / "paths.conf").write_text(paths + "".join(temps))
        (site / "listen.conf").write_text(f"listen 127.0.0.1:{self.port};\n")
        for name, before, after in (
            ("director.conf", "127.0.0.1:8080", self._director),
            ("outcomes.conf", ":5140", f":{self.outcomes_port}"),
        ):
            text = (site / name).read_text()
            assert before in text
            (site / name).write_text(text.replace(before, after))


@pytest.fixture
def shell(calm_world: World, tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path, calm_world)
    yield made
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((tmp_path / "nginx.pid").read_text()), signal.SIGTERM)


def test_the_page_leads_from_nothing_to_an_answer(shell: Shell, calm_world: World) -> None:
    """Token, configuration, fallbacks, check, start, an answer that names its region, and outcomes on their way."""
    token, configuration, fallbacks, start, ask, outcomes = BLOCKS
    shell.run(token)
    assert "demo-key-of-acme" in shell.run(configuration)
    shell.settle_in()
    assert shell.run(fallbacks).strip() == "changed"
    # The order follows what regions publish: a world that has just started may change it once more.
    wait_for(lambda: shell.run(fallbacks).strip() == "unchanged", why="the list of fallbacks stays as it is")
    # NGINX goes to the background and must not keep this test's pipe.
    check, run = start.strip().splitlines()
    assert "successful" in shell.run(check)
    shell.run(f"{run} > /dev/null 2>&1")
    answer = wait_for(lambda: _good(shell.run(ask)), why="an answer")
    assert re.search(r"X-Director-Region: eu-(west|central)-1", answer)
    assert "director_session=" in answer
    log = shell.folder / "reporter.log"
    pid = int(shell.run(outcomes.strip().removesuffix("&") + f"> {log} 2>&1 < /dev/null & echo $!").split()[-1])
    try:
        wait_for(lambda: "outcomes_forwarding" in log.read_text(), why="the reporter listens")
        before = calm_world.counted("ok")

        def arrived() -> bool:
            # Again and again: what was logged while nobody listened is lost, and so is the line after it.
            shell.run(ask)
            return calm_world.counted("ok") > before

        wait_for(arrived, why="its outcome arrives")
    finally:
        os.kill(pid, signal.SIGTERM)


def _good(answer: str) -> str | None:
    return answer if "200 OK" in answer else None
