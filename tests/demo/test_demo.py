"""`director demo`: one command, everything moving within seconds, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import dns.message
import dns.query
import dns.rdatatype
import httpx
import psutil
import pytest
from click.testing import CliRunner

from director.demo.command import demo_command
from director.demo.run import CannotRun, reset

T = TypeVar("T")
CHAT_EU = "chat.eu.infer.example.com"
CLIENT_NETWORK = "203.0.113.0/24"
START_S = 90.0
"""On a machine that runs other tests meanwhile; alone it takes a few seconds."""


def free_port() -> int:
    """Free for TCP and UDP."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            with contextlib.suppress(OSError):
                udp.bind(("127.0.0.1", tcp.getsockname()[1]))
                return int(tcp.getsockname()[1])


def until(found: Callable[[], T | None], what: str, within_s: float = START_S) -> T:
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        value = found()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {within_s} s")


class Running:
    def __init__(self, data: Path, *arguments: str) -> None:
        self.data = data
        self.http_port, self.dns_port = free_port(), free_port()
        self.log = data.with_suffix(".out")
        where = ["--http-port", str(self.http_port), "--dns-port", str(self.dns_port), "--data", str(data)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "director", "demo", *where, *arguments], stdout=log, stderr=subprocess.STDOUT
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.output()
            return "ready after" in self.output()

        until(ready, "the demo is ready")

    @property
    def tokens(self) -> dict[str, str]:
        tokens: dict[str, str] = json.loads((self.data / "demo.json").read_text())["tokens"]
        return tokens

    def decide(self, **question: str) -> dict[str, object] | None:
        answer = httpx.post(
            f"http://127.0.0.1:{self.http_port}/select-region",
            json=question,
            headers={"authorization": f"Bearer {self.tokens['decide']}"},
        )
        decision: dict[str, object] = answer.json()
        return decision if answer.status_code == 200 else None

    def resolve(self) -> set[str]:
        query = dns.message.make_query(CHAT_EU, "A")
        query.use_edns(0, options=[dns.edns.ECSOption("203.0.113.0", 24)])
        answer = dns.query.udp(query, "127.0.0.1", timeout=3.0, port=self.dns_port)
        return {rdata.address for rrset in answer.answer for rdata in rrset if rrset.rdtype == dns.rdatatype.A}

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


def ours(data: Path) -> list[psutil.Process]:
    """Every live process that works on this folder, Postgres and its children included."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = [*process.cmdline(), process.cwd()]
            if process.pid != os.getpid() and any(str(data) in word for word in words):
                found.append(process)
    return found


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "demo"
    yield folder
    for process in ours(folder):
        with contextlib.suppress(psutil.Error):
            process.kill()


@pytest.mark.e2e
def test_the_demo_from_start_to_end(data: Path) -> None:
    """HTTP and DNS name one region, agents report, traffic flows, Ctrl-C leaves nothing, a second start goes on."""
    demo = Running(data)
    demo.wait_until_ready()
    assert (data / "demo.json").stat().st_mode & 0o077 == 0
    names = {"decide", "read", "operate", *(f"report:{path.stem}" for path in (data / "agents").glob("*.yaml"))}
    assert set(demo.tokens) == names
    assert len(names) == 8

    addresses = {"eu-west-1": {"192.0.2.10"}, "eu-central-1": {"192.0.2.20"}}

    def agree() -> bool:
        decision = demo.decide(tenant="acme", model="llama-3.3-70b", client_ip="203.0.113.7", session=CLIENT_NETWORK)
        return decision is not None and demo.resolve() == addresses[str(decision["region"])]

    until(agree, "HTTP and DNS name the same region", within_s=20.0)
    read = {"authorization": f"Bearer {demo.tokens['read']}", "accept": "application/json"}
    regions = httpx.get(f"http://127.0.0.1:{demo.http_port}/regions", headers=read)
    assert regions.status_code == 200
    until(lambda: "req/s" in demo.output() and "plan" in demo.output().splitlines()[-1], "a progress line")
    commands = [" ".join(process.cmdline()) for process in ours(data)]
    assert sum("director agent -c" in command for command in commands) == 5

    second = CliRunner().invoke(
        demo_command, ["--http-port", str(demo.http_port), "--dns-port", str(free_port()), "--data", f"{data}-2"]
    )
    assert second.exit_code == 2
    assert second.stderr.count("\n") == 1
    assert str(demo.http_port) in second.stderr
    with pytest.raises(CannotRun, match="in use"):
        reset(data)

    assert demo.stop() == 0
    until(lambda: not ours(data), "nothing is left behind", within_s=10.0)
    assert (data / "postgres").is_dir()

    first_token = demo.tokens["decide"]
    again = Running(data)
    again.wait_until_ready()
    assert again.tokens["decide"] != first_token
    events = httpx.get(
        f"http://127.0.0.1:{again.http_port}/events?limit=1000",
        headers={"authorization": f"Bearer {again.tokens['read']}", "accept": "application/json"},
    ).json()
    text = json.dumps(events)
    assert "first_plan" in text, "what the first run stored is gone"
    again.process.kill()
    again.process.wait(10)
    until(lambda: not ours(data), "nothing outlives a killed demo", within_s=20.0)
    reset(data)
    assert not data.exists()


def test_reset_removes_no_folder_that_is_not_a_demos(tmp_path: Path) -> None:
    """A slip of the hand must not cost anybody's files."""
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(CannotRun, match="holds no demo's data"):
        reset(precious)
    assert (precious / "thesis.txt").exists()
    reset(tmp_path / "nothing")


def test_a_busy_port_is_one_line(tmp_path: Path) -> None:
    """Said before anything starts, with what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(
            demo_command, ["--http-port", str(port), "--dns-port", str(free_port()), "--data", str(tmp_path / "d")]
        )
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert str(port) in result.stderr
    assert "--http-port" in result.stderr
