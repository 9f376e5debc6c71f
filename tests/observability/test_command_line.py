"""The command line as somebody meets it at night: one line of error, completion, tables that are watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from director.commands import ask
from director.store.database import Database
from tests.serve.cli import Stub, run, server

__all__ = ["server"]

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
REGIONS = {"regions": [{"region": "eu-west-1"}, {"region": "eu-north-1"}, {"region": "us-east-1"}]}


@pytest.mark.parametrize(
    ("arguments", "code", "what", "todo"),
    [
        (("regoins",), 2, "Did you mean 'regions'?", "director --help"),
        (("drain",), 2, "Missing argument 'REGION'", "director drain --help"),
        (("serve", "--dns-port", "x"), 2, "'x' is not a valid integer", "director serve --help"),
        (("cap", "eu-west-1", "--reason", "r"), 2, "give either SHARE, 0 to 1, or --none", "director cap --help"),
        (("events", "--follow", "--watch"), 2, "choose one", "director events --help"),
        (("regions",), 2, "set DIRECTOR_TOKEN", "director token create"),
        (("keys", "list", "--data", "/nonexistent"), 2, "no database", "DIRECTOR_DATABASE_URL"),
        (("keys", "list"), 1, "cannot be reached", "database"),
    ],
)
def test_an_error_is_one_line_with_what_to_do(arguments: tuple[str, ...], code: int, what: str, todo: str) -> None:
    """No usage text, no traceback: what is wrong, and where to read on."""
    env = {"DIRECTOR_DATABASE_URL": "postgresql://x@/y?host=/nowhere"} if code == 1 else {}
    told = run(*arguments, **env)
    assert told.exit_code == code
    assert told.stdout == ""
    (line,) = told.stderr.splitlines()
    assert line.startswith("director: ")
    assert what in line
    assert todo in line


def test_without_a_command_there_is_help() -> None:
    """Every command with a sentence."""
    told = run()
    assert "Take no new sessions into a region" in told.output


def test_a_reader_that_leaves_is_no_error() -> None:
    """`director … | head`: no traceback in the terminal."""
    command = f"{sys.executable} -m director policy schema | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert len(done.stdout) == 10
    assert done.stderr == ""


class TestCompletion:
    """What a shell asks for when somebody presses Tab."""

    @staticmethod
    def complete(words: str, position: int, **env: str) -> list[str]:
        told = run(_DIRECTOR_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(position), **env)
        return [line.partition(",")[2] for line in told.output.splitlines() if line]

    def test_commands_and_options(self) -> None:
        """Groups, commands, options."""
        assert self.complete("director dr", 1) == ["drain"]
        assert self.complete("director policy ro", 2) == ["rollback"]
        assert "--deadline-s" in self.complete("director drain --", 2)

    def test_regions_are_those_of_the_running_director(self, server: Stub) -> None:
        """Asked of DIRECTOR_URL, with DIRECTOR_TOKEN."""
        server.body = REGIONS
        env = {"DIRECTOR_URL": server.url, "DIRECTOR_TOKEN": "t"}
        assert self.complete("director drain eu", 2, **env) == ["eu-west-1", "eu-north-1"]

    @pytest.mark.parametrize("body", [{}, [], {"regions": [{}]}, "nonsense"])
    def test_an_answer_that_is_none_completes_nothing(self, server: Stub, body: object) -> None:
        """Tab never prints an error into somebody's line."""
        server.body = body
        assert self.complete("director drain eu", 2, DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t") == []

    def test_nobody_listens(self) -> None:
        """Nor does it when the director is away."""
        assert self.complete("director drain eu", 2, DIRECTOR_URL="http://127.0.0.1:9", DIRECTOR_TOKEN="t") == []

    def test_bash_takes_what_the_document_says(self) -> None:
        """The line of docs/operations.md, in a real bash: the function is there and completes."""
        line = 'eval "$(_DIRECTOR_COMPLETE=bash_source director)"'
        assert line in DOCUMENT.read_text(encoding="utf-8")
        script = (
            f'{line}; COMP_WORDS=(director dr); COMP_CWORD=1; _director_completion director; echo "${{COMPREPLY[*]}}"'
        )
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=env, timeout=60)
        assert done.stdout.strip() == "drain", done.stderr


class TestWatch:
    """`--watch`: the table again and again."""

    def test_it_goes_on_through_a_failure(self, server: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
        """A director that restarts is told in a line, and asked again; Ctrl-C ends it with 0."""
        server.body = []
        bodies = iter([(503, {"detail": "starting"}), (200, []), None])

        def pause(_: float) -> None:
            following = next(bodies)
            if following is None:
                raise click.exceptions.Exit(0)
            server.status, server.body = following

        monkeypatch.setattr(ask, "_pause", pause)
        told = run("events", "--watch", "--json", DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert told.exit_code == 0
        assert told.stdout.splitlines() == ["[]", "[]"]
        assert told.stderr.splitlines() == ["director: 503: starting"]
        assert len(server.asked) == 3


@pytest.mark.postgres
async def test_keys_rotate(database: Database, postgres_url: str) -> None:
    """A new key verifies at once and signs later; secrets are never shown."""
    import asyncio

    from director.store import keys

    first = await keys.ensure(database)
    env = {"DIRECTOR_DATABASE_URL": postgres_url}
    rotated = json.loads((await asyncio.to_thread(run, "keys", "rotate", "--json", **env)).stdout)
    assert [one["signs"] for one in rotated] == [True, False]
    assert rotated[0]["id"] == first.current
    shown = (await asyncio.to_thread(run, "keys", "list", **env)).stdout
    assert "signs and verifies" in shown
    assert first.keys[first.current].hex() not in shown


def test_a_taken_metrics_port_is_named_before_anything_starts(tmp_path: Path) -> None:
    """One line with the option that chooses another."""
    import socket

    from director.serve import ports
    from director.serve.options import Options
    from tests.serve.processes import free_port

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        options = Options("127.0.0.1", free_port(), "127.0.0.1", free_port(), tmp_path, planner_metrics_port=port)
        with pytest.raises(ports.PortUnusable, match=rf"{port}.*metrics of planner.*--planner-metrics-port"):
            ports.check(options)
        assert str(port) in options.arguments("planner")
        assert str(port) not in options.arguments("dns")
