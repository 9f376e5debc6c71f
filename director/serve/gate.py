"""A gate between processes: children load their modules while what they need is still being prepared.

A pipe that nobody writes to: whoever waits reads until the supervisor closes its end, all at once. When the supervisor
dies the gate opens too, and the kernel ends the children (see `child.die_with_parent`).
"""

from __future__ import annotations

import os

GATE_FD = "DIRECTOR_GATE_FD"


class Gate:
    """The supervisor's side."""

    def __init__(self) -> None:
        self._ends: tuple[int, int] | None = os.pipe()

    def open(self) -> None:
        """Let everyone through, those who wait and those who come later. Harmless twice."""
        if self._ends is not None:
            for end in self._ends:
                os.close(end)
            self._ends = None

    @property
    def pass_fds(self) -> tuple[int, ...]:
        """What a child inherits."""
        return self._ends[:1] if self._ends is not None else ()

    @property
    def environment(self) -> dict[str, str]:
        return {GATE_FD: str(self._ends[0])} if self._ends is not None else {}


def wait() -> None:
    """The child's side: block until the gate is open. At once where there is none."""
    number = os.environ.pop(GATE_FD, None)
    if number is None:
        return
    end = int(number)
    while os.read(end, 1):
        pass
    os.close(end)
