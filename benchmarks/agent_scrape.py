"""What scraping costs an agent: replicas × dump size × interval → CPU and memory of the agent's process alone.

    python benchmarks/agent_scrape.py [--replicas 200] [--interval-s 2] [--seconds 20]

The servers run in a process of their own and answer dumps of a real vLLM's size (some 620 lines, 60 kB); one of them
hangs for ever. Fails above half a core or 150 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from director.demo.wire import Request, Response, Server

CORES_MAX = 0.5
MIB_MAX = 150.0
HISTOGRAMS = 28
BUCKETS = 20
MODELS = b'{"object":"list","data":[{"id":"m","parent":null},{"id":"acme-v3","parent":"m"}]}'
LABEL = 'engine="0",model_name="meta-llama/Llama-3.3-70B-Instruct"'


def dump(second: float) -> str:
    """A vLLM dump with every family's help and type, counters moving."""
    count = int(second * 10)
    lines = []
    for name, value in (
        ("num_requests_running", 12), ("num_requests_waiting", 0), ("kv_cache_usage_perc", 0.4),
    ):  # fmt: skip
        lines += [f"# HELP vllm:{name} A gauge of the engine.", f"# TYPE vllm:{name} gauge"]
        lines.append(f"vllm:{name}{{{LABEL}}} {value}")
    for name in ("prompt_tokens", "generation_tokens", "num_preemptions", "prefix_cache_queries", "prefix_cache_hits"):
        lines += [f"# HELP vllm:{name}_total A counter of the engine.", f"# TYPE vllm:{name}_total counter"]
        lines += [f"vllm:{name}_total{{{LABEL}}} {count * 100}.0", f"vllm:{name}_created{{{LABEL}}} 1.7e+09"]
    for reason in ("stop", "length", "abort", "error"):
        lines.append(f'vllm:request_success_total{{{LABEL},finished_reason="{reason}"}} {count}.0')
    for i in range(HISTOGRAMS):
        name = "vllm:time_to_first_token_seconds" if i == 0 else f"vllm:request_phase_{i}_time_seconds"
        lines += [f"# HELP {name} Histogram of a phase of the request in seconds.", f"# TYPE {name} histogram"]
        lines += [f'{name}_bucket{{{LABEL},le="{2.0 ** (b - 10):g}"}} {count * b // BUCKETS}.0' for b in range(BUCKETS)]
        lines += [f'{name}_bucket{{{LABEL},le="+Inf"}} {count}.0', f"{name}_count{{{LABEL}}} {count}.0"]
        lines.append(f"{name}_sum{{{LABEL}}} {count * 0.3}")
    return "\n".join(lines) + "\n"


async def _serve(replicas: int, pipe: Connection) -> None:
    text, made_s = dump(0.0).encode(), 0.0

    async def answer(request: Request) -> Response:
        nonlocal text, made_s
        if request.path == "/v1/models":
            return Response(200, MODELS)
        if time.monotonic() - made_s > 1.0:
            made_s = time.monotonic()
            text = dump(made_s).encode()
        return Response(200, text, "text/plain")

    async def hang(_request: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    servers = [Server(hang if i == 0 else answer) for i in range(replicas)]
    for server in servers:
        await server.listen(0)
    pipe.send(([server.port for server in servers], len(text), text.count(b"\n")))
    await asyncio.Event().wait()


def _servers(replicas: int, pipe: Connection) -> None:
    asyncio.run(_serve(replicas, pipe))


AGENT = """
import asyncio, json, resource, sys
from pathlib import Path
from director.agent.config_file import load
from director.agent.run import Agent

async def main(path, seconds):
    agent = Agent(load(Path(path)))
    task = asyncio.create_task(agent.run())
    await asyncio.sleep(5)  # the first scrapes, when every series is new
    before, scraped = resource.getrusage(resource.RUSAGE_SELF), agent.collector.scrapes
    await asyncio.sleep(seconds)
    after = resource.getrusage(resource.RUSAGE_SELF)
    report = agent.take_report()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    deployment = report.deployments[0]
    print(json.dumps({
        "cores": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / seconds,
        "mib": after.ru_maxrss / 1024, "scrapes_per_s": (agent.collector.scrapes - scraped) / seconds,
        "ready": deployment.replicas.ready, "total": deployment.replicas.total,
    }))

asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=200)
    parser.add_argument("--interval-s", type=float, default=2.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], 8192), limit[1]))
    ours, theirs = multiprocessing.Pipe()
    servers = multiprocessing.Process(target=_servers, args=(options.replicas, theirs), daemon=True)
    servers.start()
    ports, size, lines = ours.recv()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.yaml"
        deployment = {
            "model": "m", "version": "1", "engine": "vllm", "replica_max_running": 256,
            "sources": [{"static": [f"http://127.0.0.1:{port}" for port in ports]}],
        }  # fmt: skip
        configuration = {
            "region": "bench", "interval_s": options.interval_s, "scrape_timeout_s": options.interval_s,
            "directors": [{"url": "http://127.0.0.1:9", "token": "t"}], "deployments": [deployment],
        }  # fmt: skip
        path.write_text(json.dumps(configuration))
        ran = subprocess.run(
            [sys.executable, "-c", AGENT, str(path), str(options.seconds)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    servers.terminate()
    found = json.loads(ran.stdout.splitlines()[-1])
    fine = found["cores"] <= CORES_MAX and found["mib"] <= MIB_MAX and found["ready"] == options.replicas - 1
    print(f"{options.replicas} replicas every {options.interval_s:g} s, dumps of {lines} lines, {size / 1000:.0f} kB")
    print(f"agent: {found['cores']:.2f} cores (at most {CORES_MAX}), {found['mib']:.0f} MiB (at most {MIB_MAX:.0f})")
    print(f"       {found['scrapes_per_s']:.0f} scrapes/s, {found['ready']} of {found['total']} ready, one hangs")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
