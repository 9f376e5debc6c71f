"""Decisions per server-CPU-second, servers interleaved in one run; and latency at a steady rate.

    python benchmarks/http_compare.py [--rounds 3] [--seconds 4] [--json FILE]

Server and client are pinned to different cores where there are two. The figure divides by the server's own CPU time,
so that a slow client or a busy neighbour does not enter it; the ratios are what to compare between machines. Beside the
director's own ways stand NGINX that decides in njs and NGINX that answers a constant (`http_nginx.conf`, `.js`).
Needs wrk, and nginx with njs; h2load for the paced part.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CONSTANT = json.dumps({"region": "region-1", "padding": "." * 740})
HANDLERS = {"nginx_njs": "js_content decide.answer", "nginx_return": f"return 200 '{CONSTANT}'"}
KINDS = ("protocol", "asgi", "litestar", *HANDLERS)
PACED = ("protocol", "nginx_return", "nginx_njs")
"""Latency beside a peer's: a tail that NGINX has too is the machine's."""
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or "nginx"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
BODY = (
    '{"tenant":"acme","model":"llama-3.3-70b","client_ip":"203.0.113.7","session":"conv-81f3","estimated_tokens":5200}'
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command_of(kind: str, port: int, folder: Path) -> list[str]:
    if kind not in HANDLERS:
        return [sys.executable, str(HERE / "http_server.py"), kind, str(port)]
    prefix = folder / kind
    prefix.mkdir()
    shutil.copy(HERE / "http_nginx.js", prefix)
    text = (HERE / "http_nginx.conf").read_text().replace("HANDLER", HANDLERS[kind]).replace("PORT", str(port))
    (prefix / "nginx.conf").write_text(text)
    return [NGINX, "-p", str(prefix), "-c", str(prefix / "nginx.conf"), "-e", "stderr"]


def start(kind: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    port = free_port()
    server = subprocess.Popen(command_of(kind, port, folder), stdout=subprocess.DEVNULL)
    pin(server.pid, 0)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server, port
        time.sleep(0.05)
    raise SystemExit(f"the {kind} server did not start")


def pin(pid: int, core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(pid, {cores[core % len(cores)]})


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def load(pid: int, port: int, seconds: float) -> float:
    """Requests answered per second of the server's CPU."""
    before = cpu_s(pid)
    command = ["wrk", "-t1", "-c16", f"-d{seconds:g}s", "-s", str(HERE / "http.lua"), f"http://127.0.0.1:{port}/"]
    wrk = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pin(wrk.pid, 1)
    text, _ = wrk.communicate()
    used = cpu_s(pid) - before
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(f"not every answer was a decision:\n{text}")
    found = re.search(r"(\d+) requests in", text)
    if found is None:
        raise SystemExit(f"wrk said:\n{text}")
    return int(found[1]) / used


def paced(port: int, per_s: int, seconds: int, *, evenly: bool) -> dict[str, float] | None:
    """Latency at a steady rate, ms.

    h2load's clients send each 10 ms, and all start at once: of 5,000 a second, 50 come within one millisecond, and the
    last of them waits for the others. `evenly` starts them half a millisecond apart, so that their turns are spread.
    """
    if shutil.which("h2load") is None:
        return None
    body = HERE / ".http-body.json"
    log = HERE / ".http-latency.tsv"
    body.write_text(BODY)
    clients = 20
    command = [
        "h2load", "--h1", "-t1", f"-c{clients}", f"--rps={per_s / clients:g}", "-d", str(body),
        "-H", "Authorization: Bearer benchmark-token", f"--log-file={log}", f"http://127.0.0.1:{port}/select-region",
        *(("-r2", "--rate-period=1ms", f"-n{per_s * seconds}") if evenly else (f"-D{seconds}",)),
    ]  # fmt: skip
    try:
        h2load = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        pin(h2load.pid, 1)
        h2load.wait()
        rows = [line.split("\t") for line in log.read_text().splitlines()]
        taken = sorted(int(row[2]) / 1000 for row in rows if row[1] == "200")
    finally:
        body.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
    if not taken:
        return None
    quantiles = statistics.quantiles(taken, n=100)
    return {"per_s": len(taken) / seconds, "p50_ms": quantiles[49], "p99_ms": quantiles[98], "max_ms": taken[-1]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(options.rounds, options.seconds, Path(folder))
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


def measure(rounds: int, seconds: float, folder: Path) -> dict[str, object]:
    servers = {kind: start(kind, folder) for kind in KINDS}
    figures: dict[str, list[float]] = {kind: [] for kind in KINDS}
    try:
        for server, port in servers.values():
            load(server.pid, port, 1)
        for _ in range(rounds):
            for kind, (server, port) in servers.items():
                figures[kind].append(load(server.pid, port, seconds))
        latency = {
            how: [{kind: paced(servers[kind][1], 5_000, 6, evenly=evenly) for kind in PACED} for _ in range(rounds)]
            for how, evenly in (("evenly", True), ("in_bursts", False))
        }
    finally:
        for server, _ in servers.values():
            server.terminate()
        for server, _ in servers.values():
            server.wait()
    medians = {kind: statistics.median(taken) for kind, taken in figures.items()}
    return {
        "decisions_per_server_cpu_second": {kind: round(value) for kind, value in medians.items()},
        "protocol_over": {kind: round(medians["protocol"] / medians[kind], 2) for kind in KINDS[1:]},
        "protocol_over_njs_by_round": [
            round(ours / njs, 2) for ours, njs in zip(figures["protocol"], figures["nginx_njs"], strict=True)
        ],
        "paced_5000_per_s": {how: {kind: median_of(runs, kind) for kind in PACED} for how, runs in latency.items()},
    }


def median_of(runs: list[dict[str, dict[str, float] | None]], kind: str) -> dict[str, object] | None:
    """The medians of a server's runs, and the p99 of each: a neighbour's burst of work is in some of them."""
    told = [found for run in runs if (found := run[kind]) is not None]
    if not told:
        return None
    medians = {name: round(statistics.median(one[name] for one in told), 3) for name in told[0]}
    return {**medians, "p99_ms_by_round": [round(one["p99_ms"], 2) for one in told]}


if __name__ == "__main__":
    main()
