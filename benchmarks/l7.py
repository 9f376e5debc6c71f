"""The extra hop, measured: a proxy that knows where to go, beside the shipped ones that ask.

Every region is an NGINX that answers at once, so that what is left is the proxy's own time. Two connections, closed
loop: latencies without queueing. Each variant runs for a few seconds, in turn, several times; the median counts.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.e2e.tree import MODEL
from tests.l7.haproxy import Haproxy
from tests.l7.nginx import Nginx, nginx
from tests.l7.world import World, world
from tests.serve.processes import free_port, wait_for

SCRIPT = """
local n = 0
local body = '{"model":"MODEL","max_tokens":1}'
request = function()
  n = n + 1
  return wrk.format("POST", "/v1/chat/completions", {
    ["Authorization"] = "Bearer demo-key-of-acme", ["X-Session-Id"] = "s" .. n % 5000,
  }, body)
end
done = function(summary, latency)
  io.write(string.format("figures %d %d %d %d\\n", latency:percentile(50), latency:percentile(99),
    summary.requests * 1e6 / summary.duration, summary.errors.status + summary.errors.read + summary.errors.connect))
end
""".replace("MODEL", MODEL)

BARE = """
    server {{
        listen 127.0.0.1:{plain};
        location / {{
            proxy_pass http://region.eu-central-1;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
    server {{
        listen 127.0.0.1:{region};
        access_log off;
        keepalive_requests 1000000000;
        location / {{ return 200 "{{}}"; }}
    }}
"""


class Figures(NamedTuple):
    p50_us: int
    p99_us: int
    per_s: int
    errors: int


def with_fast_region(proxy: Nginx, region: int, more: str) -> None:
    """Every region is the one that answers at once. `more`: servers beside the shipped one."""
    path = proxy.folder / "site" / "fallbacks.conf"
    path.write_text(re.sub(r"server 127\.0\.0\.1:\d+ ", f"server 127.0.0.1:{region} ", path.read_text()) + more)
    proxy.reload()


def run(port: int, seconds: int, script: Path) -> Figures:
    words = ["wrk", "-t1", "-c2", f"-d{seconds}s", "-s", str(script), f"http://127.0.0.1:{port}"]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = re.search(r"figures (\d+) (\d+) (\d+) (\d+)", printed)
    assert found, printed
    return Figures(*map(int, found.groups()))


def no_cache(proxy: Nginx) -> None:
    path = proxy.folder / "common" / "cached.conf"
    path.write_text(re.sub(r"proxy_cache +director_decisions;", "proxy_cache off;", path.read_text()))
    proxy.reload()


def start_haproxy(folder: Path, here: World, region: int) -> Haproxy:
    proxy = Haproxy(folder, here, free_port())
    path = folder / "regions.cfg"
    path.write_text(re.sub(r" 127\.0\.0\.1:\d+ ", f" 127.0.0.1:{region} ", path.read_text()))
    proxy.start()
    return proxy


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=4)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    plain, region = free_port(), free_port()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        script = folder / "request.lua"
        script.write_text(SCRIPT)
        here = stack.enter_context(world(folder, estimated_tokens=1))
        here.front.close()
        here.front.port = here.tree.http  # no door of Python's in between
        ports: dict[str, int] = {"NGINX, not asking": plain}
        for variant in ("auth_request", "njs"):
            for more in ("", ", every request asks"):
                label = f"NGINX {variant}{more}"
                proxy = stack.enter_context(nginx(folder / label.replace(" ", "_"), variant, here))
                with_fast_region(proxy, region, BARE.format(plain=plain, region=region) if len(ports) == 1 else "")
                if more:
                    no_cache(proxy)
                ports[label] = proxy.port
        proxy_h = start_haproxy(folder / "haproxy", here, region)
        stack.callback(proxy_h.stop)
        ports["HAProxy"] = proxy_h.port
        results: dict[str, list[Figures]] = {label: [] for label in ports}
        for label, port in ports.items():
            wait_for(lambda port=port: run(port, 1, script).errors == 0, within_s=20, why=f"{label} answers")
        for _ in range(asked.rounds):
            for label, port in ports.items():
                results[label].append(run(port, asked.seconds, script))
        show(results)


def show(results: dict[str, list[Figures]]) -> None:
    base: Figures | None = None
    print("| proxy | p50 ms | p99 ms | added p50 ms | added p99 ms | requests/s | errors |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for label, rounds in results.items():
        middle = Figures(*(int(median(column)) for column in zip(*rounds, strict=True)))
        base = base or middle
        added = [(one - other) / 1000 for one, other in zip(middle[:2], base[:2], strict=True)]
        print(
            f"| {label} | {middle.p50_us / 1000:.2f} | {middle.p99_us / 1000:.2f} | {added[0]:+.2f} | {added[1]:+.2f} "
            f"| {middle.per_s} | {middle.errors} |"
        )


if __name__ == "__main__":
    main()
