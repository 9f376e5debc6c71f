"""Ends a server when its owner is gone, however the owner went.

A shell waits for the end of a pipe that only the owner holds open; the kernel closes it for an owner killed by SIGKILL
too. The server is ended only while its pid file names it: numbers are used again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

_SCRIPT = """
trap '' INT TERM HUP
read -r _ || :
# A server that has only just been started has yet to write its pid file.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$1" 2>/dev/null || exit 0
    [ "$(head -n 1 "$2" 2>/dev/null)" = "$1" ] && break
    sleep 0.5
done
[ "$(head -n 1 "$2" 2>/dev/null)" = "$1" ] || exit 0
kill -INT "$1" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$1" 2>/dev/null || exit 0
    sleep 0.5
done
kill -QUIT "$1" 2>/dev/null
"""


class Watchdog:
    """Watches over one server for the process that made this object."""

    def __init__(self, pid: int, pid_file: Path) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "watchdog", str(pid), str(pid_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # Ctrl-C, and the end of a terminal, are not for it.
            start_new_session=True,
        )

    def call_off(self) -> None:
        """The server has ended, or is to go on without a watchdog."""
        self._shell.kill()
        self._shell.wait()
        assert self._shell.stdin is not None
        self._shell.stdin.close()

    def owner_is_gone(self) -> None:
        """What the kernel does for an owner that dies: close the pipe."""
        assert self._shell.stdin is not None
        self._shell.stdin.close()
