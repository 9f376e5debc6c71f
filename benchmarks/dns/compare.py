"""DNS answers per server-CPU-second, beside gdnsd's and PowerDNS's geoip, interleaved in one run.

    python -m benchmarks.dns.compare [--rounds 3] [--seconds 3] [--json FILE] [--favour]

Server and load are pinned to different cores. On a machine that is shared `--favour` (root, Linux's autogroups) puts
other programs behind them: a server that waits for its core still pays for a new plan each second, and looks slow.
Checks the ratios and exits 1 where one is not reached.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.dns import peers
from benchmarks.dns.load import server_cookie

OURS, GDNSD, PDNS, KNOT = "director", "gdnsd geoip", "PowerDNS geoip", "Knot geoip"
PROGRAMS = {GDNSD: "gdnsd", PDNS: "pdns_server", KNOT: "knotd"}
LOAD_CPU, SERVER_CPU = "1", "0"
FAVOURED: list[bool] = []


def own_session() -> None:
    """A session is an autogroup: its share of the processor is set apart from every other's."""
    os.setsid()
    if FAVOURED:
        Path("/proc/self/autogroup").write_text("-20")


def server_command(which: str, folder: Path, port: int, workers: int = 1) -> list[str]:
    if which == GDNSD:
        return peers.gdnsd(folder, port)
    if which == PDNS:
        return peers.powerdns(folder, port)
    if which == KNOT:
        return peers.knot(folder, port)
    return [sys.executable, "-m", "benchmarks.dns.server", str(port), str(workers)]


@contextlib.contextmanager
def running(which: str, folder: Path, port: int, workers: int = 1, cpus: str = SERVER_CPU) -> Iterator[list[int]]:
    command = ["taskset", "-c", cpus, *server_command(which, folder / which.replace(" ", "-"), port, workers)]
    errors = sys.stderr if which == OURS else subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=own_session) as process:
        pids = [process.pid]
        try:
            await_answer(port, process)
            pids += children(process.pid)
            yield pids
        finally:
            for pid in reversed(pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)


def await_answer(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until the server answers the benchmark's question; raises when it ends or takes too long."""
    deadline_s = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline_s:
        with contextlib.suppress(OSError, AssertionError):
            server_cookie(port, peers.NAME)
            return
        time.sleep(0.1)
    raise RuntimeError(f"no answer on port {port} from {process.args!r}")


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in tasks.read_text().split()] if tasks.exists() else []


def load(port: int, pids: list[int], seconds: float, *more: str, cpus: str = LOAD_CPU) -> dict[str, float]:
    command = ["taskset", "-c", cpus, sys.executable, "-m", "benchmarks.dns.load", str(port)]
    command += [argument for pid in pids for argument in ("--pid", str(pid))]
    output = subprocess.run(
        [*command, "--seconds", str(seconds), *more],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        preexec_fn=own_session,
    ).stdout
    result: dict[str, float] = json.loads(output)
    return result


def dnsperf(port: int, folder: Path, seconds: float) -> float:
    """Queries a second by the usual tool, as a check on our own."""
    (folder / "questions").write_text(f"{peers.NAME} A\n")
    command = [
        "taskset",
        "-c",
        LOAD_CPU,
        "dnsperf",
        "-s",
        "127.0.0.1",
        "-p",
        str(port),
        "-d",
        str(folder / "questions"),
    ]
    command += ["-l", str(max(1, int(seconds))), "-q", "500", "-E", "8:000118000a0102"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=own_session).stdout
    found = re.search(r"Queries per second:\s+([\d.]+)", output)
    return float(found[1]) if found else 0.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--favour", action="store_true")
    options = parser.parse_args()
    if options.favour:
        FAVOURED.append(True)
    rivals = [OURS]
    rivals += [name for name, program in PROGRAMS.items() if shutil.which(program)]
    ports = {name: 8350 + i for i, name in enumerate(rivals)}
    results: dict[str, list[float]] = {name: [] for name in rivals}
    with tempfile.TemporaryDirectory() as text, contextlib.ExitStack() as stack:
        folder = Path(text)
        pids = {name: stack.enter_context(running(name, folder, ports[name])) for name in rivals}
        for _ in range(options.rounds):
            for name in rivals:
                got = load(ports[name], pids[name], options.seconds)
                assert not got["wrong"], (name, got)
                results[name].append(got["per_cpu_s"])
                print(f"{name:<16} {got['per_cpu_s']:>9,.0f} per CPU-second, lost {got['lost']}", flush=True)
        half = statistics.median(results[OURS]) / 2
        latency = load(ports[OURS], pids[OURS], options.seconds, "--rate", str(half))
        if shutil.which("dnsperf"):
            print("\ndnsperf, whose own ceiling is near 130,000/s, one subnet:")
            for name in rivals:
                print(f"{name:<16} {dnsperf(ports[name], folder, options.seconds):>9,.0f}/s", flush=True)
    medians = {name: statistics.median(values) for name, values in results.items()}
    return report(medians, latency, half, options.json)


def report(medians: dict[str, float], latency: dict[str, float], half: float, file: Path | None) -> int:
    checks = [("p99_ms at half the rate", latency["p99_ms"], 5.0, latency["p99_ms"] < 5.0)]
    checks.append(("lost at half the rate", latency["lost"], 0, latency["lost"] == 0))
    for name, factor in ((GDNSD, 0.5), (PDNS, 2.0)):
        if name in medians:
            ratio = round(medians[OURS] / medians[name], 2)
            checks.append((f"ratio to {name}", ratio, factor, ratio >= factor))
    print(f"\n{'server':<16} answers per CPU-second")
    for name, value in medians.items():
        print(f"{name:<16} {value:>9,.0f}")
    print(f"\nat {half:,.0f}/s: p50 {latency['p50_ms']} ms, p99 {latency['p99_ms']} ms, p99.9 {latency['p99.9_ms']} ms")
    for what, value, bound, ok in checks:
        print(f"{'ok  ' if ok else 'MISS'} {what}: {value} (bound {bound})")
    if file is not None:
        file.write_text(json.dumps({"medians": medians, "latency": latency, "checks": checks}, indent=1) + "\n")
    return 0 if all(ok for *_, ok in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
