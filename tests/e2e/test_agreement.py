"""One question, every way of asking it: the same region."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.tree import Fleet, Tree, command, live_tree
from tests.serve.processes import director, free_port, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]

SUBNETS = ("203.0.113.0/24", "198.51.100.0/24", "198.18.7.0/24", "198.18.200.0/24", "198.19.3.0/24", "198.19.250.0/24")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tree, Fleet]]:
    with live_tree(tmp_path_factory.mktemp("agreement")) as both:
        yield both


@pytest.mark.parametrize(("name", "tenant"), [("chat", "open"), ("chat.eu", "acme"), ("customer7.chat", "open")])
@pytest.mark.parametrize("subnet", SUBNETS)
def test_http_and_dns_name_the_same_region(live: tuple[Tree, Fleet], name: str, tenant: str, subnet: str) -> None:
    """A session that is the client's network gets over HTTP the region whose address DNS gives that network."""
    tree, _ = live
    client_ip = subnet.replace(".0/24", ".9")
    told = tree.select(tenant=tenant, session=subnet, client_ip=client_ip)
    assert told.status == 200
    assert tree.resolve(f"{name}.infer.example.com", subnet) == told.body["region"]


def test_the_command_line_looks_the_same_name_up(live: tuple[Tree, Fleet]) -> None:
    """`director dns lookup` and `director regions` ask the running tree."""
    tree, _ = live
    lookup = ("dns", "lookup", "chat.eu.infer.example.com", "--subnet", SUBNETS[0], "--server", f"127.0.0.1:{tree.dns}")
    printed = command(*lookup)
    assert printed.startswith("NOERROR")
    assert "192.0.2." in printed
    env = {"DIRECTOR_URL": f"http://127.0.0.1:{tree.http}", "DIRECTOR_TOKEN": tree.token}
    told = json.loads(command(*lookup, "--json", env=env))
    assert told["regions"] == [told["explanation"]["region"]] == [tree.resolve(lookup[2], SUBNETS[0])]
    assert "eu-central-1" in command("regions", env=env)
    assert "residency" in command("explain", "--tenant", "acme", "--model", "llama-3.3-70b", env=env)
    refusal = command("explain", "--tenant", "acme", "--model", "llama", env=env, exit_code=1)
    assert "Traceback" not in refusal


def test_three_replicas_answer_alike_and_move_alike(live: tuple[Tree, Fleet], tmp_path: Path) -> None:
    """All three name the nearest region; it dies, and all three name the next, and only that one (D6)."""
    from director.serve import running

    tree, fleet = live
    found = running.read(tree.data)
    assert found is not None
    env = {"DIRECTOR_DATABASE_URL": found.database_url}
    with contextlib.ExitStack() as stack:
        replicas = [tree]
        for number in (2, 3):
            port = free_port()
            arguments = ["serve", "--role", "api", "--http-port", str(port), "--data", str(tmp_path / f"data{number}")]
            process = stack.enter_context(director(arguments, tmp_path / f"api{number}.log", env))
            replica = Tree(process, port, 0, tmp_path)
            replica.token = tree.token
            replicas.append(replica)
            wait_for(lambda one=replica: one.status() == "ready", why="the replica is ready")

        def answers(count: int = 40) -> set[str]:
            return {
                replica.select(tenant="globex", client_zone="us-east", session=f"s{n}").body["region"]
                for replica in replicas
                for n in range(count)
            }

        assert answers() == {"us-east-1"}
        fleet.health["us-east-1"] = "down"
        try:
            wait_for(lambda: answers(3) == {"us-west-2"}, why="all three move")
            assert answers() == {"us-west-2"}
        finally:
            fleet.health.clear()
        wait_for(lambda: tree.select(tenant="globex", client_zone="us-east").body["region"] == "us-east-1", within_s=90)
