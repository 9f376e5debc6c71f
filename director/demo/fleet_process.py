"""`python -m director.demo.fleet_process FILE`: runs the fleet and writes to FILE where it listens."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from director.demo.fleet import Fleet, write_places


async def run(path: Path) -> None:
    fleet = Fleet()
    write_places(path, await fleet.start())
    task = asyncio.ensure_future(fleet.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    finally:
        fleet.stop()
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
