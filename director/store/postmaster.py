"""What a server's pid file and command line tell about it."""

from __future__ import annotations

import os
from pathlib import Path


def can_tell() -> bool:
    """Whether this system shows command lines; without, a left-over server is Postgres's own to find."""
    return Path("/proc/self/cmdline").exists()


def is_ready(cluster_dir: Path, pid: int) -> bool:
    """Line 8 of postmaster.pid says `ready` once connections are accepted; pg_ctl looks there too."""
    try:
        lines = (cluster_dir / "postmaster.pid").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def first_number(path: Path) -> int | None:
    try:
        return int(path.read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def serves(pid: int, cluster_dir: Path) -> bool:
    """Whether a process is a Postgres on this folder, by its command line."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"postgres") and os.fsencode(cluster_dir) in words
