"""What a second DNS worker on the same port costs and brings.

    python -m benchmarks.dns.scaling [--rounds 3] [--seconds 3] [--favour]

Servers and load share two cores, so two workers never have two cores to themselves: the gain is less than on a machine
with a core for each, and how it goes on beyond two cannot be seen here. The CPU that an answer costs can: paced, where
every worker makes its own answers for each plan and finds few queries at a time, and saturated. The kernel spreads
sockets, not client subnets: all that one socket asks goes to one worker.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import socket
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.dns import compare, peers
from benchmarks.dns.load import query

WORKERS = (1, 2)
PORT = 8361
RATE = 20_000
SOCKETS = 64
SPREADS = (1, 8, 64, 1000)
CPUS = "0,1"
COST_RATIO_MAX = 1.3
"""Saturated, an answer of two workers may cost this much of one's: two processes share caches, batches are smaller."""
GAIN_MIN = 1.15
"""Of throughput. Both bounds were set after looking, with room for a shared machine."""


def spread(port: int, sockets: int) -> list[int]:
    """How many of so many sockets each worker got, the busiest first: each asks once who answers it (NSID)."""
    who: Counter[bytes] = Counter()
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(sockets)]
        for sock in opened:
            sock.settimeout(3)
            sock.connect(("127.0.0.1", port))
            sock.send(query(1, peers.NAME, b"\x0a\0\0", b"", nsid=True))
            answer = sock.recv(2048)
            at = answer.index(b"bench-")
            who[answer[at : at + 7]] += 1
    return [count for _, count in who.most_common()]


def measure(rounds: int, seconds: float) -> bool:
    """Print the tables; whether a second worker costs little, slows nothing, and helps where the server is short."""
    kinds = {"paced": ("--rate", str(RATE)), "prepared": (), "missing": ("--missing",)}
    results: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as text, contextlib.ExitStack() as stack:
        pids = {
            n: stack.enter_context(compare.running(compare.OURS, Path(text) / str(n), PORT + n, n, CPUS))
            for n in WORKERS
        }
        spreads = {sockets: spread(PORT + WORKERS[-1], sockets) for sockets in SPREADS}
        for _ in range(rounds):
            for (kind, more), n in itertools.product(kinds.items(), WORKERS):
                asked = (PORT + n, pids[n], seconds, "--sockets", str(SOCKETS), *more)
                results[kind, n].append(compare.load(*asked, cpus=CPUS))
    print(f"\nworkers that share the port; servers and load on cores {CPUS}, {SOCKETS} sockets, 20,000 subnets:")
    print("load      workers  µs of CPU an answer  answers/s   lost")
    cost, rate = {}, {}
    for kind, n in itertools.product(kinds, WORKERS):
        cost[kind, n] = 1e6 * statistics.median(one["cpu_s"] / one["answered"] for one in results[kind, n])
        rate[kind, n] = statistics.median(one["answered"] / seconds for one in results[kind, n])
        lost = sum(one["lost"] for one in results[kind, n])
        print(f"{kind:<8}  {n:>7}  {cost[kind, n]:>19.1f}  {rate[kind, n]:>9,.0f}  {lost:>5,.0f}")
    for sockets, counts in spreads.items():
        print(f"{sockets:>5} client sockets over two workers: {' + '.join(map(str, counts))}")
    one, two = WORKERS
    checks = [
        ("CPU of a prepared answer", cost["prepared", two] / cost["prepared", one], COST_RATIO_MAX, -1),
        ("throughput of names that do not exist", rate["missing", two] / rate["missing", one], GAIN_MIN, 1),
    ]
    gain = rate["prepared", two] / rate["prepared", one]
    print(f"     two workers ÷ one, throughput of prepared answers: {gain:.2f} (unbounded: the load is the limit)")
    for what, ratio, bound, sign in checks:
        words = "ok  " if sign * ratio >= sign * bound else "MISS"
        print(f"{words} two workers ÷ one, {what}: {ratio:.2f} (bound {bound})")
    return all(sign * ratio >= sign * bound for _, ratio, bound, sign in checks)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--favour", action="store_true")
    options = parser.parse_args()
    if options.favour:
        compare.FAVOURED.append(True)
    sys.exit(0 if measure(options.rounds, options.seconds) else 1)
