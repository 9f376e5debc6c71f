"""Outcomes reach the breakers whichever replica takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from director.serve import running
from tests.e2e.tree import MODEL, Tree, live_tree
from tests.serve.processes import director, free_port, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]

REGION = "eu-west-1"


def failed(asked: Tree, reporter: str, batch: str) -> int:
    """One batch of timeouts, from one L7 to one replica."""
    outcome = {"region": REGION, "model": MODEL, "version": "2026-08-14", "class": "timeout", "count": 15}
    return asked.call("POST", "/outcomes", {"reporter": reporter, "batch": batch, "outcomes": [outcome]}).status


def breaker(asked: Tree) -> str:
    deployments = asked.call("GET", "/plan").body["deployments"]
    return str(next(d["breaker"] for d in deployments if d["region"] == REGION))


def test_two_reporters_at_two_replicas_open_a_breaker_for_both(tmp_path: Path) -> None:
    """One L7 alone closes a region for nobody. A second one that agrees does, though it told another replica; and both
    replicas answer by it.
    """
    with live_tree(tmp_path) as (first, _):
        port = free_port()
        found = running.read(first.data)
        assert found is not None
        env = {"DIRECTOR_DATABASE_URL": found.database_url}
        arguments = ["serve", "--role", "api", "--http-port", str(port), "--data", str(tmp_path / "second")]
        with director(arguments, tmp_path / "second.log", env) as process:
            second = Tree(process, port, first.dns, tmp_path / "second")
            second.token = first.token
            wait_for(lambda: second.status() == "ready", within_s=60, why="the second replica is ready")
            for number in range(3):
                assert failed(first, "edge-1", f"a{number}") < 300
            epoch = first.call("GET", "/plan").body["epoch"]
            assert (
                first.call("POST", "/regions/us-west-2/cap", {"share": 0.5, "reason": "a plan after it"}).status < 300
            )
            wait_for(lambda: first.call("GET", "/plan").body["epoch"] > epoch, why="a plan that knows of edge-1")
            assert breaker(first) == "closed"
            for number in range(3):
                assert failed(second, "edge-2", f"b{number}") < 300
            wait_for(lambda: breaker(first) == breaker(second) == "open", within_s=10, why="both know it is open")
            told = second.select(client_zone="europe")
            assert told.status == 200
            assert told.body["region"] != REGION
