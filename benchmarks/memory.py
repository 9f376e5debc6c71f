"""Memory of `director serve` with 50 regions × 40 deployments, under load: proportional set size of each process.

Starts the tree in a temporary folder, lets every region report, asks for decisions over HTTP and DNS on many routes
while plans change (a compiled table exists twice at each swap), and takes the largest of the figures read once a
second. Exit 1 when a bound is passed.

    python benchmarks/memory.py [--seconds 40]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

# In place of this folder, whose `dns` would hide the library of that name.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from director.serve import running  # noqa: E402
from tests.e2e.tree import Tree, command  # noqa: E402
from tests.serve.processes import children, director, free_port, wait_for  # noqa: E402

REGIONS = 50
MODELS = 20
VERSIONS = 2
TENANTS = 8
ZONES = 6
PROCESS_MIB_MAX = 120.0
TREE_MIB_MAX = 350.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="how long to load and watch")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), seconds)


def measure(folder: Path, seconds: float) -> int:
    policy = folder / "policy"
    policy.mkdir()
    (policy / "large.yaml").write_text(json.dumps(large_policy(), indent=1))
    http, dns_port = free_port(), free_port()
    arguments = ["serve", "--http-port", str(http), "--dns-port", str(dns_port), "--data", str(folder / "data")]
    with director([*arguments, "--policy", str(policy)], folder / "serve.log") as process:
        tree = Tree(process, http, dns_port, folder / "data")
        wait_for(tree.status, within_s=60)
        found = running.read(tree.data)
        assert found is not None
        scopes = ["decide", "read", *(f"report:{region(n)}" for n in range(REGIONS))]
        words = [word for scope in scopes for word in ("--scope", scope)]
        tree.token = command("token", "create", "memory", *words, env={"DIRECTOR_DATABASE_URL": found.database_url})
        stop = threading.Event()
        workers = [
            threading.Thread(target=work, args=(tree, stop), daemon=True) for work in (reports, decisions, queries)
        ]
        for worker in workers:
            worker.start()
        wait_for(lambda: tree.status() == "ready", within_s=90, why=f"ready; {process.log[-2000:]}")
        wait_for(lambda: len(tree.call("GET", "/plan").body["deployments"]) == REGIONS * MODELS * VERSIONS, within_s=90)
        peaks = watch(tree, seconds)
        summary = tree.call("GET", "/plan").body
        stop.set()
        for worker in workers:
            worker.join(10)
    return show(peaks, len(summary["deployments"]))


def watch(tree: Tree, seconds: float) -> dict[str, float]:
    """The largest figure of each process, MiB; `postgres` is the sum of its processes."""
    peaks: dict[str, float] = defaultdict(float)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        read: dict[str, float] = defaultdict(float)
        for pid in [tree.process.pid, *children(tree.process.pid)]:
            name = name_of(pid, tree)
            if name:
                read[name] += pss_mib(pid)
        read["tree without postgres"] = sum(size for name, size in read.items() if name != "postgres")
        for name, size in read.items():
            peaks[name] = max(peaks[name], size)
        time.sleep(1.0)
    return dict(peaks)


def name_of(pid: int, tree: Tree) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
    if pid == tree.process.pid:
        return "supervisor"
    if "postgres" in words or "watchdog" in words:
        return "postgres"
    return words.partition("--role ")[2].partition(" ")[0]


def pss_mib(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def show(peaks: dict[str, float], deployments: int) -> int:
    routes = TENANTS * MODELS * ZONES
    print(f"{REGIONS} regions, {deployments} deployments, {routes} routes in use; largest PSS, MiB")
    passed = False
    for name in ("supervisor", "planner", "api", "dns", "tree without postgres", "postgres"):
        bound = {"tree without postgres": TREE_MIB_MAX, "postgres": None}.get(name, PROCESS_MIB_MAX)
        size = peaks.get(name, 0.0)
        over = bound is not None and size > bound
        passed = passed or over
        print(f"  {name:22} {size:7.1f}" + (f"  of {bound:g}{'  PASSED THE BOUND' if over else ''}" if bound else ""))
    return 1 if passed else 0


def region(number: int) -> str:
    return f"region-{number}"


def large_policy() -> dict[str, object]:
    place = random.Random(7)
    tags = ["EU", "US", "AP"]
    return {
        "jurisdictions": tags,
        "regions": {
            region(n): {
                "jurisdictions": [tags[n % 3]],
                "location": {"lat": place.uniform(-50, 60), "lon": place.uniform(-180, 180)},
                "endpoint": f"https://{region(n)}.example.net",
                "addresses": {"A": [f"192.0.2.{n + 1}"]},
                "price_per_mtok": 0.4,
            }
            for n in range(REGIONS)
        },
        "objectives": {"interactive": {"spread_ms": 30, "ms_per_price": 20}},
        "models": {f"model-{n}": {"objective": "interactive"} for n in range(MODELS)},
        "tenants": {
            f"tenant-{n}": {
                "residency": "anywhere" if n % 4 == 0 else {"allow": [tags[n % 3]]},
                "deny_regions": [region(n)],
            }
            for n in range(TENANTS)
        },
        "client_zones": {
            f"zone-{n}": {
                "location": {"lat": place.uniform(-50, 60), "lon": place.uniform(-180, 180)},
                "networks": [f"198.18.{n}.0/24"],
            }
            for n in range(ZONES)
        },
        "dns": {
            "infer.example.com": {
                "nameservers": {"ns1.infer.example.com": ["192.0.2.53"]},
                "names": {
                    f"m{m}.t{t}": {"tenant": f"tenant-{t}", "model": f"model-{m}"}
                    for m in range(MODELS)
                    for t in range(TENANTS)
                },
            }
        },
    }


def reports(tree: Tree, stop: threading.Event) -> None:
    """Each region every 5 s, with figures that move a little, so that plans follow."""
    sequence = 0
    while not stop.is_set():
        sequence += 1
        started_s = time.monotonic()
        for number in range(REGIONS):
            body = region_report(sequence, random.Random(sequence * 1000 + number))
            try:
                tree.call("PUT", f"/regions/{region(number)}/report", body)
            except OSError:
                continue
            if stop.wait(max(0.0, started_s + number * 0.1 - time.monotonic()) if sequence > 1 else 0.0):
                return


def region_report(sequence: int, chance: random.Random) -> dict[str, object]:
    return {
        "schema": 1,
        "boot_id": "memory",
        "sequence": sequence,
        "observed_at": "2026-11-30T20:51:07Z",
        "interval_s": 5,
        "deployments": [
            {
                "model": f"model-{m}",
                "version": f"2026-0{v + 1}",
                "engine": "vllm",
                "replicas": {"ready": chance.randint(6, 8), "total": 8},
                "adapters": {"loaded": ["adapter-a", "adapter-b"], "loadable": ["adapter-c"]},
                "max_running": 2_048,
                "running": chance.randint(800, 1_600),
                "waiting": 3,
                "kv_usage": 0.6,
                "arrived": {"requests_per_s": 40.0, "tokens_per_s": 60_000.0},
                "completed": {
                    "requests_per_s": 40.0,
                    "prompt_tokens_per_s": chance.uniform(45_000, 50_000),
                    "generation_tokens_per_s": 9_000.0,
                },
                "errors_per_s": {"server": 0.1},
                "ttft_ms": {"p50": chance.uniform(250, 400), "p95": 900},
                "scraped": {"answered": 8, "of": 8},
            }
            for m in range(MODELS)
            for v in range(VERSIONS)
        ],
    }


def decisions(tree: Tree, stop: threading.Event) -> None:
    chance = random.Random(1)
    while not stop.wait(0.004):
        body = {
            "tenant": f"tenant-{chance.randrange(TENANTS)}",
            "model": f"model-{chance.randrange(MODELS)}",
            "client_zone": f"zone-{chance.randrange(ZONES)}",
            "session": str(chance.random()),
        }
        try:
            tree.call("POST", "/select-region", body)
        except OSError:
            stop.wait(0.2)


def queries(tree: Tree, stop: threading.Event) -> None:
    import dns.exception

    chance = random.Random(2)
    while not stop.wait(0.01):
        name = f"m{chance.randrange(MODELS)}.t{chance.randrange(TENANTS)}.infer.example.com"
        try:
            tree.lookup(name, f"198.18.{chance.randrange(ZONES)}.0/24")
        except (OSError, dns.exception.DNSException):
            stop.wait(0.2)


if __name__ == "__main__":
    sys.exit(main())
