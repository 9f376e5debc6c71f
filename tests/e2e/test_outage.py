"""The database dies under load, and nobody who asks for a region notices but by a flag."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import dns.exception
import dns.rcode
import pytest

from tests.e2e.load import Load, postmaster
from tests.e2e.tree import Fleet, Tree, live_tree, tree
from tests.serve.processes import director, free_port, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Tree, Fleet]]:
    with live_tree(tmp_path) as both:
        yield both


def test_postgres_is_killed_under_load(live: tuple[Tree, Fleet]) -> None:
    """Not one query fails; answers say static, readiness says degraded; then everything recovers by itself."""
    running_tree, fleet = live
    with Load(running_tree) as load:
        wait_for(lambda: load.http > 50 and load.dns > 50, why="load runs")
        assert load.static == 0
        held_down_until_s = time.monotonic() + 4
        degraded = False
        while time.monotonic() < held_down_until_s:
            pid = postmaster(running_tree)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            degraded = degraded or running_tree.status() == "degraded"
            time.sleep(0.05)
        assert degraded
        assert load.static > 0
        assert running_tree.select().body["plan"]["static"] is True
        wait_for(lambda: running_tree.status() == "ready", within_s=40, why="it recovers by itself")
        assert running_tree.select().body["plan"]["static"] is False
        before = fleet.refused
        wait_for(lambda: fleet.report("eu-west-1") == 202, why="reports are taken again")
        assert fleet.refused >= before
    assert load.failures == []
    assert min(load.http, load.dns) > 200
    events = running_tree.call("GET", "/events?kind=freshness&limit=1000").body
    assert not [event for event in events if event["after"] == "lost"], "an outage of ours aged a region"


def test_postgres_freezes_under_load(live: tuple[Tree, Fleet]) -> None:
    """A database that accepts and never answers is as good as none: flagged, and followed again when it wakes."""
    running_tree, _ = live
    pid = postmaster(running_tree)
    assert pid is not None
    from tests.serve.processes import children

    frozen = [pid, *children(pid)]
    with Load(running_tree) as load:
        for one in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGSTOP)
        try:
            wait_for(lambda: running_tree.status() == "degraded", why="it notices")
            assert running_tree.select().body["plan"]["static"] is True
        finally:
            for one in frozen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)
        wait_for(lambda: running_tree.status() == "ready", within_s=30, why="it recovers by itself")
    assert load.failures == []


def test_the_planner_is_killed_under_load(live: tuple[Tree, Fleet]) -> None:
    """Decisions go on from the last plan, and the supervisor's next planner goes on from the stored state."""
    running_tree, _ = live
    with Load(running_tree) as load:
        epoch = running_tree.call("GET", "/plan").body["epoch"]
        os.kill(running_tree.role_pid("planner"), signal.SIGKILL)
        running_tree.call("POST", "/regions/us-west-2/down", {"reason": "test"})
        wait_for(lambda: running_tree.call("GET", "/plan").body["epoch"] > epoch, why="the next planner publishes")
        wait_for(lambda: running_tree.status() == "ready")
    assert load.failures == []


def test_it_starts_from_its_snapshots_without_a_database(tmp_path: Path) -> None:
    """api and dns start while the database is away: the last plan, flagged; never an arbitrary region (D1 a)."""
    with live_tree(tmp_path) as (running_tree, _):
        token, data = running_tree.token, running_tree.data
        before = running_tree.select(session="s1", client_zone="europe").body
        by_dns = running_tree.resolve("chat.infer.example.com", "203.0.113.0/24")
        wait_for(lambda: all((data / f"snapshot-{role}.json").exists() for role in ("api", "dns")), why="snapshots")
    env = {"DIRECTOR_DATABASE_URL": "postgresql://director@/postgres?host=/nonexistent"}
    http, dns_port = free_port(), free_port()
    api = ["serve", "--role", "api", "--http-port", str(http), "--data", str(data)]
    responder = ["serve", "--role", "dns", "--dns-port", str(dns_port), "--data", str(data)]
    with director(api, tmp_path / "api.log", env) as process, director(responder, tmp_path / "dns.log", env):
        offline = Tree(process, http, dns_port, data)
        offline.token = token
        wait_for(offline.status, why="the API answers")
        assert offline.readiness().body["status"] == "degraded"
        told = offline.select(session="s1", client_zone="europe").body
        assert told["region"] == before["region"]
        assert told["plan"]["static"] is True
        assert told["plan"]["epoch"] == before["plan"]["epoch"]
        assert offline.call("GET", "/events").status == 503
        wait_for(lambda: _answers(offline), why="DNS answers")
        assert offline.resolve("chat.infer.example.com", "203.0.113.0/24") == by_dns


def _answers(asked: Tree) -> bool:
    try:
        asked.lookup("chat.infer.example.com")
    except (OSError, dns.exception.DNSException):
        return False
    return True


def test_a_fresh_tree_that_nobody_reported_to_is_not_ready(tmp_path: Path) -> None:
    """Nothing is stored and no region has reported: 503 over HTTP, SERVFAIL over DNS, and "not ready" (D1 b)."""
    with tree(tmp_path) as fresh:
        assert fresh.readiness().status == 503
        assert fresh.status() == "not_ready"
        told = fresh.select()
        assert told.status == 503
        assert told.body["code"] == "not_ready"
        wait_for(lambda: _answers(fresh), why="DNS answers")
        assert fresh.lookup("chat.infer.example.com").rcode() == dns.rcode.SERVFAIL
