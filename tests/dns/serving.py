"""A responder over the test policy on a port of its own, for programs that nobody here wrote.

    python -m tests.dns.serving PORT [HOST]        on port 53 HOST is also the zone's only nameserver

Prints `ready` and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import os
import sys

from director.dns.limits import Limits
from director.dns.server import serve_dns
from tests.dns.fakes import APEX, FakeView, policy, zone


async def main(port: int, host: str) -> None:
    nameservers = {f"ns1.{APEX}": (host,)}
    view = FakeView(policy(dns={APEX: zone(nameservers=nameservers)}) if port == 53 else None)
    responder = await serve_dns(view, host, port, nsid=b"replica-1", limits=Limits(responses_per_s=0))
    print(f"ready {responder.port}", flush=True)
    over = asyncio.Event()
    # EOF: the parent is gone, or has had enough.
    asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 4096) or over.set())
    await over.wait()
    await responder.stop()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"))
