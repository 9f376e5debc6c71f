"""The whole process tree as a test meets it: over HTTP, DNS, signals and /proc, and in no other way."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dns.edns
import dns.message
import dns.query

from director.resources import policies_dir
from director.serve import running
from tests.serve.processes import Director, director, free_port, wait_for, wait_for_answer

REGIONS = ("eu-west-1", "eu-central-1", "us-east-1", "us-west-2", "ap-northeast-1")
ADDRESSES = {
    "192.0.2.10": "eu-west-1",
    "192.0.2.20": "eu-central-1",
    "192.0.2.30": "us-east-1",
    "192.0.2.40": "us-west-2",
    "192.0.2.50": "ap-northeast-1",
}
"""What the example policy answers in DNS."""
MODEL = "llama-3.3-70b"
SCOPES = ("decide", "read", "operate", *(f"report:{region}" for region in REGIONS))


class Answer(NamedTuple):
    status: int
    body: Any


class Tree:
    """A running director: `http` and `dns` are its ports, `token` holds every scope."""

    def __init__(self, process: Director, http: int, dns_port: int, data: Path) -> None:
        self.process = process
        self.http = http
        self.dns = dns_port
        self.data = data
        self.token = ""

    def call(self, method: str, path: str, body: Any = None, within_s: float = 5.0) -> Answer:
        """One HTTP request. Raises OSError when nobody answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=within_s) as response:
                return Answer(response.status, json.loads(response.read() or b"null"))
        except urllib.error.HTTPError as error:
            return Answer(error.code, json.loads(error.read() or b"null"))

    def select(self, **fields: Any) -> Answer:
        return self.call("POST", "/select-region", {"tenant": "open", "model": MODEL, **fields})

    def lookup(self, name: str, subnet: str | None = None, rdtype: str = "A") -> dns.message.Message:
        """One DNS query over UDP. Raises dns.exception.Timeout."""
        options: list[dns.edns.Option] = []
        if subnet is not None:
            address, _, length = subnet.partition("/")
            options.append(dns.edns.ECSOption(address, int(length)))
        query = dns.message.make_query(name, rdtype, use_edns=0, options=options)
        return dns.query.udp(query, "127.0.0.1", port=self.dns, timeout=5)

    def resolve(self, name: str, subnet: str | None = None) -> str | None:
        """The region whose address the name has; None where the answer holds none."""
        answer = self.lookup(name, subnet)
        found = [ADDRESSES[record.address] for rrset in answer.answer for record in rrset if rrset.rdtype == 1]
        return found[0] if found else None

    def readiness(self) -> Answer:
        return self.call("GET", "/health/ready")

    def status(self) -> str:
        """`ready`, `degraded` or `not_ready`; empty while nobody answers."""
        try:
            body = self.readiness().body
        except OSError:
            return ""
        return str(body.get("status") if isinstance(body.get("status"), str) else body.get("ready"))

    def role_pid(self, role: str) -> int:
        """The process of one role."""
        return next(pid for pid, words in self.processes().items() if f"--role {role}" in words)

    def processes(self) -> dict[int, str]:
        """Process id → command line, of everything that was started below the supervisor."""
        from tests.serve.processes import children

        found = {}
        for pid in children(self.process.pid):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if words:
                    found[pid] = words
        return found


class Fleet:
    """Every region reports once a second, in a thread; `muted` ones do not. Failures to report are expected."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._stop = threading.Event()
        self._sequence = int.from_bytes(os.urandom(4)) << 16
        self.muted: set[str] = set()
        self.health: dict[str, str] = {}
        self.refused = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(20)

    def report(self, region: str) -> int:
        self._sequence += 1
        return self._tree.call(
            "PUT", f"/regions/{region}/report", report(self._sequence, self.health.get(region))
        ).status

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            for region in REGIONS:
                if region not in self.muted:
                    try:
                        self.refused += self.report(region) >= 500
                    except OSError:
                        self.refused += 1


def report(sequence: int, health: str | None = None) -> dict[str, Any]:
    return {
        "schema": 1,
        "boot_id": "test",
        "sequence": sequence,
        "observed_at": "2026-11-30T20:51:07Z",
        "interval_s": 1,
        "health": health or "ok",
        "deployments": [
            {
                "model": MODEL,
                "version": "2026-08-14",
                "replicas": {"ready": 8, "total": 8},
                "max_running": 20_000,
                "running": 100,
                "waiting": 0,
                # More than an unpaced load asks on any machine: a full fleet refuses, and that is not the test.
                "capacity_tokens_per_s": 35_000_000,
                "capacity_source": "configured",
            }
        ],
    }


@contextlib.contextmanager
def tree(
    folder: Path, *, env: dict[str, str] | None = None, policy: bool = True, options: tuple[str, ...] = ()
) -> Iterator[Tree]:
    """`director serve` on free ports with the example policy, up to where it answers HTTP; stopped at the end."""
    http, dns_port = free_port(), free_port()
    arguments = [
        "serve",
        "--http-port",
        str(http),
        "--dns-port",
        str(dns_port),
        "--data",
        str(folder / "data"),
        *options,
    ]
    if policy:
        arguments += ["--policy", str(policies_dir())]
    with director(arguments, folder / "serve.log", env) as process:
        running_tree = Tree(process, http, dns_port, folder / "data")
        wait_for_answer(process, running_tree.status, why="the API answers")
        found = wait_for(lambda: running.read(running_tree.data), why="the note of where everything is")
        running_tree.token = command(
            "token", "create", "test", *_scopes(), env={"DIRECTOR_DATABASE_URL": found.database_url}
        )
        wait_for(lambda: running_tree.call("GET", "/events").status != 401, why="the token is known")
        yield running_tree


@contextlib.contextmanager
def live_tree(folder: Path, **options: Any) -> Iterator[tuple[Tree, Fleet]]:
    """The same with a fleet that reports, up to where it is ready over HTTP and DNS."""
    with tree(folder, **options) as running_tree:
        fleet = Fleet(running_tree)
        for region in REGIONS:
            assert fleet.report(region) == 202
        fleet.start()
        try:
            wait_for(lambda: running_tree.status() == "ready", why="readiness")
            wait_for(lambda: running_tree.resolve("chat.infer.example.com"), why="DNS answers")
            yield running_tree, fleet
        finally:
            fleet.stop()


def command(*arguments: str, env: dict[str, str] | None = None, exit_code: int = 0) -> str:
    """Run one `director` command to its end; what it printed."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DIRECTOR_")}
    done = subprocess.run(
        [sys.executable, "-m", "director", *arguments], capture_output=True, text=True, env={**clean, **(env or {})}
    )
    assert done.returncode == exit_code, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout.strip() if exit_code == 0 else done.stderr.strip()


def _scopes() -> list[str]:
    return [word for scope in SCOPES for word in ("--scope", scope)]
