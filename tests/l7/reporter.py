"""`director l7 outcomes` beside a proxy, as a process of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.l7.world import World
from tests.serve.processes import director, free_port, wait_for


@contextlib.contextmanager
def reporter(
    folder: Path, world: World, name: str, place: str | None = None, through: int | None = None
) -> Iterator[int]:
    """Listening for log lines; the UDP port (0 where `place` says where else). `through`: the director's port."""
    port = free_port()
    env = {"DIRECTOR_URL": f"http://127.0.0.1:{through or world.tree.http}", "DIRECTOR_TOKEN": world.token("l7")}
    arguments = ["l7", "outcomes", "--reporter", name, "--listen", place or f"127.0.0.1:{port}", "--every-s", "0.3"]
    with director(arguments, folder / f"{name}.log", env) as running:
        wait_for(lambda: "outcomes_forwarding" in running.log, why="it listens")
        yield 0 if place else port
