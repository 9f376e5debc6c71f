"""DATA/serve.json: where a running `director serve` can be found, for commands on the same host.

It names the database, whose socket gives full access: only its owner may read the file. It is removed on a clean stop;
after a crash it is left over, so readers check that the process still lives.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

FILE = "serve.json"


class Running(Struct, frozen=True):
    pid: int
    http: str
    """Base URL of the API."""
    dns: str
    """host:port of the responder."""
    database_url: str


def write(data: Path, running: Running) -> None:
    data.mkdir(parents=True, exist_ok=True)
    partial = data / f"{FILE}.{running.pid}.partial"
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(running) + b"\n")
    os.replace(partial, data / FILE)


def read(data: Path) -> Running | None:
    """The running tree of this data folder; None where there is none."""
    try:
        running = msgspec.json.decode((data / FILE).read_bytes(), type=Running)
        os.kill(running.pid, 0)
    except (OSError, ValueError, msgspec.DecodeError):
        return None
    return running


def remove(data: Path) -> None:
    """Take the note back, if it is this process's own."""
    found = read(data)
    if found is not None and found.pid == os.getpid():
        with contextlib.suppress(OSError):
            (data / FILE).unlink()
