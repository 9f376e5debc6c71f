"""The process tree: kept whole while it should live, and gone without a trace when it should not."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path

import dns.edns
import dns.exception
import dns.message
import dns.query
import pytest

from director.serve import running
from director.serve.options import ROLES
from tests.e2e.tree import Tree, command, live_tree, tree
from tests.serve.processes import alive, children, director, free_port, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]


def everything_below(asked: Tree) -> list[int]:
    return [pid for pid in children(asked.process.pid) if alive(pid)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_in_order_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Roles, Postgres, watchdog, socket and serve.json are gone; the exit code is 0; the data stays."""
    with tree(tmp_path) as asked:
        below = everything_below(asked)
        assert len(below) >= 5
        asked.process.send(number)
        assert asked.process.process.wait(20) == 0
        wait_for(lambda: not any(alive(pid) for pid in below), why="nothing is left")
        assert running.read(asked.data) is None
        assert not (asked.data / running.FILE).exists()
        assert (asked.data / "postgres/cluster/PG_VERSION").exists()


def test_no_orphan_survives_a_killed_supervisor(tmp_path: Path) -> None:
    """SIGKILL gives it no chance to tidy up: the kernel and the watchdog do. A second start works on the same data."""
    with tree(tmp_path) as asked:
        below = everything_below(asked)
        asked.process.send(signal.SIGKILL)
        wait_for(lambda: not any(alive(pid) for pid in below), why="nothing is left")
    with director(["serve", *_ports(), "--data", str(asked.data)], tmp_path / "again.log"):
        wait_for(lambda: running.read(asked.data), why="it starts again")


def test_a_role_that_dies_is_started_again(tmp_path: Path) -> None:
    """With a new process, after a moment; the others do not notice."""
    with tree(tmp_path) as asked:
        wait_for(lambda: set(ROLES) <= {_role(words) for words in asked.processes().values()}, why="the roles run")
        for role in ROLES:
            before = {name: asked.role_pid(name) for name in ROLES}
            os.kill(before[role], signal.SIGKILL)

            def replaced(role: str = role, before: dict[str, int] = before) -> bool:
                found = {_role(words): pid for pid, words in asked.processes().items()}
                return role in found and found[role] != before[role]

            wait_for(replaced, why=f"{role} is started again")
            assert all(asked.role_pid(name) == pid for name, pid in before.items() if name != role)


def test_dns_workers_share_the_port(tmp_path: Path) -> None:
    """Two processes answer on one port and say who they are; when one dies the other answers everybody."""

    def who(asked: Tree) -> str | None:
        query = dns.message.make_query("infer.example.com", "SOA", use_edns=0)
        query.use_edns(0, options=[dns.edns.GenericOption(dns.edns.OptionType.NSID, b"")])
        with contextlib.suppress(dns.exception.Timeout):
            answer = dns.query.udp(query, "127.0.0.1", port=asked.dns, timeout=1)
            return next((str(option) for option in answer.options if option.otype == dns.edns.OptionType.NSID), None)
        return None

    def both(asked: Tree) -> bool:
        return len({who(asked) for _ in range(20)} - {None}) == 2

    def workers(asked: Tree) -> list[int]:
        return [pid for pid, words in asked.processes().items() if _role(words) == "dns"]

    with live_tree(tmp_path, options=("--dns-workers", "2")) as (asked, _):
        wait_for(lambda: both(asked), within_s=30, why="both answer")
        victim = workers(asked)[0]
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: not alive(victim), why="it is gone")
        # Its last threads, and the socket with them, may take a moment longer: what the kernel gave it then is lost.
        wait_for(lambda: all(who(asked) for _ in range(20)), within_s=10, why="the other answers everybody")
        wait_for(lambda: both(asked), within_s=30, why="both answer again")


def _role(words: str) -> str:
    return words.partition("--role ")[2].partition(" ")[0]


def _ports() -> list[str]:
    return ["--http-port", str(free_port()), "--dns-port", str(free_port())]


@pytest.mark.parametrize(
    ("kind", "option"),
    [(socket.SOCK_STREAM, "--http-port"), (socket.SOCK_STREAM, "--dns-port"), (socket.SOCK_DGRAM, "--dns-port")],
)
def test_a_busy_port_is_one_line_and_exit_2(tmp_path: Path, kind: socket.SocketKind, option: str) -> None:
    """Which port, for what, and what to do; nothing was started."""
    with socket.socket(type=kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        port = taken.getsockname()[1]
        other = "--dns-port" if option == "--http-port" else "--http-port"
        said = command(
            "serve", option, str(port), other, str(free_port()), "--data", str(tmp_path / "data"), exit_code=2
        )
    assert len(said.splitlines()) == 1
    assert str(port) in said
    assert option in said
    assert not (tmp_path / "data").exists()


def test_a_second_director_on_the_same_data_is_refused(tmp_path: Path) -> None:
    """One line that names the folder and the process."""
    with tree(tmp_path) as asked:
        said = command("serve", *_ports(), "--data", str(asked.data), exit_code=2)
        assert len(said.splitlines()) == 1
        assert str(asked.process.pid) in said


def test_a_bad_policy_is_refused_with_its_place(tmp_path: Path) -> None:
    """File, line and path; exit 2; the tree does not start."""
    policy = tmp_path / "policy"
    policy.mkdir()
    (policy / "a.yaml").write_text("jurisdictions: [EU]\nregoins: {}\n")
    said = command("serve", *_ports(), "--data", str(tmp_path / "data"), "--policy", str(policy), exit_code=2)
    assert "a.yaml:2: regoins" in said
    assert 'did you mean "regions"' in said


def test_a_role_without_a_database_says_what_to_set(tmp_path: Path) -> None:
    """`--role` starts no embedded server."""
    said = command("serve", "--role", "api", "--data", str(tmp_path), exit_code=2)
    assert "DIRECTOR_DATABASE_URL" in said


def test_roles_start_although_the_named_database_is_away(tmp_path: Path) -> None:
    """They answer "not ready" meanwhile, and nothing exits."""
    env = {"DIRECTOR_DATABASE_URL": f"postgresql://director@/postgres?host={tmp_path}"}
    http, dns_port = free_port(), free_port()
    arguments = ["serve", "--http-port", str(http), "--dns-port", str(dns_port), "--data", str(tmp_path / "data")]
    with director(arguments, tmp_path / "serve.log", env) as process:
        asked = Tree(process, http, dns_port, tmp_path / "data")
        wait_for(lambda: asked.status() == "not_ready", within_s=30, why="the API answers")
        assert process.process.poll() is None
