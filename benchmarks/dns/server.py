"""Our responder for the benchmark: everything on, a new plan every second.

    python -m benchmarks.dns.server PORT [WORKERS]

Limits count every answer and never bite: all load comes from one address.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys

import uvloop

from benchmarks.dns.world import World
from director.dns.limits import Limits
from director.dns.server import serve_dns


async def serve(port: int, workers: int, worker: int) -> None:
    world = World()
    limits = Limits(responses_per_s=100_000_000)
    responder = await serve_dns(world, "127.0.0.1", port, nsid=b"bench-%d" % worker, limits=limits, workers=workers)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    while True:
        await asyncio.sleep(1)
        world.switch()
        if os.getppid() == 1:
            await responder.stop()
            return


def main() -> None:
    port, workers = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for worker in range(1, workers):
        if os.fork() == 0:
            uvloop.run(serve(port, workers, worker))
            return
    uvloop.run(serve(port, workers, 0))


if __name__ == "__main__":
    main()
