"""The command line: what it prints, and how it ends."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from director.cli import COMMANDS, main
from director.commands.top import bar
from director.resources import policies_dir

NOW = "2026-11-30T20:51:07Z"


def run(*arguments: str, **env: str) -> Result:
    names = ("DIRECTOR_URL", "DIRECTOR_TOKEN", "DIRECTOR_DATABASE_URL", "DIRECTOR_DATA")
    return CliRunner().invoke(main, list(arguments), env={**dict.fromkeys(names), **env}, prog_name="director")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_explains_itself(name: str) -> None:
    """Commands are named by strings: each must be there, under the name that it is listed by."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    assert getattr(importlib.import_module(module), attribute).name == name
    told = run(name, "--help")
    assert told.exit_code == 0
    assert len(told.output.splitlines()) > 3


def test_a_near_miss_is_named() -> None:
    """A misspelt command is refused with the one that was meant."""
    told = run("regoins")
    assert told.exit_code == 2
    assert "Did you mean 'regions'?" in told.output


class TestDecide:
    """`director decide`: offline, from files alone."""

    @staticmethod
    def decide(tmp_path: Path, request: Any, reports: Any = None, **root: Any) -> Result:
        path = tmp_path / "reports.json"
        told = {
            "now": NOW,
            "reports": {"eu-west-1": said(), "us-east-1": said()} if reports is None else reports,
            **root,
        }
        path.write_text(json.dumps(told))
        text = request if isinstance(request, str) else json.dumps(request)
        return run("decide", "--policy", str(policies_dir()), "--reports", str(path), "--request", text)

    def test_it_prints_the_explanation(self, tmp_path: Path) -> None:
        """Region, reason, and each candidate with its rejection or its share."""
        told = self.decide(tmp_path, {"tenant": "acme", "model": "llama-3.3-70b", "client_ip": "198.51.100.7"})
        assert told.exit_code == 0
        answer = json.loads(told.stdout)
        assert (answer["region"], answer["reason"]) == ("eu-west-1", "home")
        rejections = {one["region"]: one["rejection"] for one in answer["candidates"]}
        assert rejections["eu-west-1"] is None
        assert rejections["us-east-1"] == {
            **rejections["us-east-1"],
            "filter": "residency",
            "code": "residency",
            "permanent": True,
        }

    def test_a_denied_region_is_not_chosen_although_it_is_the_only_one_left(self, tmp_path: Path) -> None:
        """Exit 1, no region, and why (D17)."""
        told = self.decide(tmp_path, {"tenant": "acme", "model": "llama-3.3-70b"}, {"us-east-1": said()})
        assert told.exit_code == 1
        assert json.loads(told.stdout)["region"] is None

    def test_a_lost_region_is_told_by_its_age(self, tmp_path: Path) -> None:
        """`age_s` is the report's age at `now`."""
        told = self.decide(
            tmp_path,
            {"tenant": "acme", "model": "llama-3.3-70b"},
            {"eu-west-1": said(age_s=1), "eu-central-1": said(age_s=90)},
        )
        answer = json.loads(told.stdout)
        codes = {one["region"]: (one["rejection"] or {}).get("code") for one in answer["candidates"]}
        assert codes["eu-central-1"] == "lost"
        assert answer["region"] == "eu-west-1"

    def test_the_request_may_be_a_file(self, tmp_path: Path) -> None:
        """JSON, or a path to it."""
        path = tmp_path / "request.json"
        path.write_text('{"tenant": "open", "model": "llama-3.3-70b"}')
        assert self.decide(tmp_path, str(path)).exit_code == 0

    @pytest.mark.parametrize(
        ("request_", "root", "said_"),
        [
            ({"tenant": "acme", "modle": "llama-3.3-70b"}, {}, "did you mean 'model'?"),
            ({"tenant": "acme"}, {}, "model: expected a value"),
            ({"tenant": "acme", "model": "m", "client_ip": "1.2.3"}, {}, "client_ip: expected an IPv4 or IPv6 address"),
            ({"tenant": "acme", "model": "m"}, {"now": "noon"}, "now: expected an RFC 3339 time"),
            ({"tenant": "acme", "model": "m"}, {"reprots": {}}, "did you mean 'reports'?"),
            ({"tenant": "acme", "model": "m"}, {"reports": {"eu-west-1": {"report": {}}}}, "reports.eu-west-1.age_s"),
            ({"tenant": "acme", "model": "m"}, {"reports": {"eu-west-1": {"age_s": -1, "report": {}}}}, "0 or more"),
            (
                {"tenant": "acme", "model": "m"},
                {"reports": {"eu-west-1": {"age_s": 1, "report": {"schema": 1}}}},
                "reports.eu-west-1.report",
            ),
            ({"tenant": "acme", "model": "m"}, {"state": {"what": 1}}, "state:"),
            ("nowhere.json", {}, "nowhere.json: No such file"),
        ],
    )
    def test_unusable_input_is_named_and_ends_with_2(
        self, tmp_path: Path, request_: Any, root: dict[str, Any], said_: str
    ) -> None:
        """Which field, what was expected; never a traceback."""
        told = self.decide(tmp_path, request_, **root)
        assert told.exit_code == 2
        assert said_ in told.stderr
        assert told.exception is None or isinstance(told.exception, SystemExit)

    def test_a_bad_policy_ends_with_2(self, tmp_path: Path) -> None:
        """The loader's own lines."""
        (tmp_path / "a.yaml").write_text("regions: 7\n")
        told = run("decide", "--policy", str(tmp_path), "--reports", "x", "--request", "{}")
        assert told.exit_code == 2
        assert "a.yaml:1: regions" in told.stderr


def said(age_s: float = 1.0) -> dict[str, Any]:
    deployment = {
        "model": "llama-3.3-70b",
        "version": "2026-08-14",
        "replicas": {"ready": 4, "total": 4},
        "max_running": 100,
        "running": 0,
        "capacity_tokens_per_s": 100_000,
        "capacity_source": "configured",
    }
    report = {
        "schema": 1,
        "boot_id": "b",
        "sequence": 1,
        "observed_at": NOW,
        "interval_s": 5,
        "deployments": [deployment],
    }
    return {"age_s": age_s, "report": report}


class TestPolicyCheck:
    """`director policy check|schema`."""

    def test_a_good_policy_is_summed_up(self) -> None:
        """One line, exit 0."""
        told = run("policy", "check", str(policies_dir()))
        assert told.exit_code == 0
        assert "5 regions" in told.stdout

    def test_every_problem_is_a_line_and_the_exit_code_is_1(self, tmp_path: Path) -> None:
        """With file, line and path, and as JSON for editors."""
        (tmp_path / "a.yaml").write_text("jurisdictions: [EU]\nregoins: {}\nmodels: 3\n")
        told = run("policy", "check", str(tmp_path))
        assert told.exit_code == 1
        assert "a.yaml:2: regoins" in told.stderr
        assert "a.yaml:3: models" in told.stderr
        as_json = json.loads(run("policy", "check", str(tmp_path), "--json").stdout)
        assert as_json["ok"] is False
        assert {"line", "path", "message"} <= set(as_json["problems"][0])

    def test_the_schema_is_json(self) -> None:
        """For editors."""
        schema = json.loads(run("policy", "schema").stdout)
        assert "regions" in schema["$defs"]["Policy"]["properties"]


Asked = tuple[str, str, str | None, Any]
"""Method, path, Authorization, body."""


class Stub:
    """A director's stand-in: answers everything with what the test set, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body: Any = {}
        self.headers: dict[str, str] = {}
        self.asked: list[Asked] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                told = json.loads(self.rfile.read(length)) if length else None
                stub.asked.append((self.command, self.path, self.headers.get("Authorization"), told))
                body = json.dumps(stub.body).encode()
                self.send_response(stub.status)
                for name, value in {"Content-Length": str(len(body)), **stub.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = answer  # noqa: N815  (the names that http.server calls)

            def log_message(self, *_: Any) -> None:
                return

        self.listening = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listening.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Stub]:
    stub = Stub()
    thread = Thread(target=stub.listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield stub
    stub.listening.shutdown()
    thread.join()
    stub.listening.server_close()


class TestClients:
    """Commands that ask a running director."""

    def test_a_drain_is_posted_with_its_reason(self, server: Stub) -> None:
        """As the token's holder, to the region's own path."""
        server.body = {"region": "eu-west-1", "changed": True, "setting": {}}
        told = run(
            "drain",
            "eu-west-1",
            "--deadline-s",
            "900",
            "--reason",
            "kernel",
            DIRECTOR_URL=server.url,
            DIRECTOR_TOKEN="t",
        )
        assert told.exit_code == 0
        assert server.asked == [
            ("POST", "/regions/eu-west-1/drain", "Bearer t", {"reason": "kernel", "deadline_s": 900.0})
        ]
        assert told.stdout == "eu-west-1 drains, for 900 s\n"

    def test_a_cap_is_ended_with_none(self, server: Stub) -> None:
        """A share of null."""
        server.body = {"region": "eu-west-1", "changed": False, "setting": None}
        told = run("cap", "eu-west-1", "--none", "--reason", "r", DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert server.asked[0][3] == {"share": None, "reason": "r"}
        assert told.stdout == "eu-west-1 had no cap\n"
        assert run("cap", "eu-west-1", "--reason", "r").exit_code == 2
        assert run("cap", "eu-west-1", "1.5", "--reason", "r").exit_code == 2

    @pytest.mark.parametrize(("status", "code"), [(503, 1), (404, 1), (400, 2), (401, 2), (403, 2)])
    def test_a_refusal_is_one_line(self, server: Stub, status: int, code: int) -> None:
        """The problem's own words; "no" ends with 1, a mistake of the asker's with 2."""
        server.status, server.body = status, {"title": "T", "detail": "what is wrong"}
        server.headers = {"Retry-After": "7"}
        told = run("regions", DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert told.exit_code == code
        assert len(told.stderr.splitlines()) == 1
        assert "what is wrong" in told.stderr
        assert "try again in 7 s" in told.stderr

    def test_json_is_passed_through(self, server: Stub) -> None:
        """For scripts."""
        server.body = [{"id": 1}]
        told = run("events", "--json", "--region", "eu-west-1", DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert json.loads(told.stdout) == [{"id": 1}]
        assert server.asked[0][1] == "/events?region=eu-west-1&limit=50"

    def test_an_explanation_without_a_region_ends_with_1(self, server: Stub) -> None:
        """And shows who was rejected by what."""
        rejection = {"filter": "residency", "code": "residency", "permanent": True, "detail": ""}
        candidate = {"region": "us-east-1", "version": "1", "share": 0.0, "rejection": rejection, "nearness": None}
        server.body = {"region": None, "reason": None, "candidates": [candidate]}
        told = run(
            "explain",
            "--model",
            "m",
            "--tenant",
            "acme",
            "--residency",
            "EU",
            DIRECTOR_URL=server.url,
            DIRECTOR_TOKEN="t",
        )
        assert told.exit_code == 1
        assert "no region is left" in told.stdout
        assert "residency" in told.stdout
        assert server.asked[0][3] == {"model": "m", "tenant": "acme", "residency": ["EU"]}

    def test_nobody_listens(self) -> None:
        """One line that names the address and the variable."""
        told = run("plan", DIRECTOR_URL="http://127.0.0.1:1", DIRECTOR_TOKEN="t")
        assert told.exit_code == 2
        assert "http://127.0.0.1:1" in told.stderr
        assert len(told.stderr.splitlines()) == 1

    def test_no_token_is_set(self) -> None:
        """What to set, and how to get one."""
        told = run("plan")
        assert told.exit_code == 2
        assert "DIRECTOR_TOKEN" in told.stderr


class TestTop:
    """`director top`."""

    def test_it_needs_a_terminal(self) -> None:
        """A pipe gets no escape codes, but the command to use instead."""
        told = run("top", DIRECTOR_TOKEN="t")
        assert told.exit_code == 2
        assert "regions --json" in told.stderr

    @pytest.mark.parametrize(
        ("ratio", "shown"), [(0.0, "····"), (0.5, "██████████··········   50%"), (1.6, "████████████████████  160%")]
    )
    def test_a_bar_is_full_at_capacity(self, ratio: float, shown: str) -> None:
        """And the number beside it goes on."""
        assert shown in bar(ratio)


class TestPolicyChange:
    """`director policy diff|apply|rollback|history`, asked of a running director."""

    MOVES: ClassVar[dict[str, Any]] = {
        "moved_share": 0.25,
        "weighed_by": "demand",
        "routes_changed": 1,
        "routes": [
            {
                "tenant": "acme",
                "model": "m",
                "version": "*",
                "client_zone": "europe",
                "moved": 0.5,
                "before": {"eu-west-1": 1.0},
                "after": {"eu-west-1": 0.5, "eu-central-1": 0.5},
                "refused_before": 0.0,
                "refused_after": 0.0,
            }
        ],
        "residency_widened": {"acme": ["us-east-1"]},
        "residency_narrowed": {},
        "tenants_removed": [],
        "models_removed": ["old"],
        "regions_removed": [],
    }

    def test_a_dry_run_says_what_moves_and_names_residency_that_widens(self, server: Stub) -> None:
        """The folder's files are sent; nothing is applied."""
        server.body = {"applied": False, "version": None, "warnings": [], "moves": self.MOVES}
        told = run("policy", "diff", str(policies_dir()), DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert told.exit_code == 0
        method, path, _, body = server.asked[0]
        assert (method, path) == ("PUT", "/policy")
        assert "tenants.yaml" in body["files"]
        assert "RESIDENCY WIDENS: acme may also enter us-east-1" in told.stdout
        assert "25.0% of all traffic moves" in told.stdout
        assert "nothing was changed" in told.stdout

    def test_a_change_is_applied_with_its_reason(self, server: Stub) -> None:
        """And says which version it became."""
        server.body = {"applied": True, "version": 8, "warnings": [], "moves": None}
        arguments = ("policy", "apply", str(policies_dir()), "--reason", "new region", "--force")
        told = run(*arguments, DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert server.asked[0][1] == "/policy?apply=true&reason=new+region&force=true"
        assert "applied as version 8" in told.stdout

    def test_the_brake_ends_with_1(self, server: Stub) -> None:
        """In the director's own words."""
        server.status, server.body = 409, {"detail": "80% of all traffic would move"}
        told = run("policy", "apply", str(policies_dir()), DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert told.exit_code == 1
        assert "80% of all traffic would move" in told.stderr

    def test_a_bad_folder_is_refused_here(self, server: Stub, tmp_path: Path) -> None:
        """With places in the folder's own files; the director is not asked."""
        (tmp_path / "a.yaml").write_text("regoins: {}\n")
        told = run("policy", "apply", str(tmp_path), DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert told.exit_code == 1
        assert "a.yaml:1: regoins" in told.stderr
        assert server.asked == []

    def test_a_rollback_names_its_version(self, server: Stub) -> None:
        """Or none, for the one before."""
        server.body = {"applied": True, "version": 9, "warnings": [], "moves": None}
        run("policy", "rollback", "7", "--reason", "r", DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        run("policy", "rollback", DIRECTOR_URL=server.url, DIRECTOR_TOKEN="t")
        assert [asked[3] for asked in server.asked] == [{"version": 7, "reason": "r"}, {}]


class TestTokens:
    """`director token`, against a database."""

    pytestmark = pytest.mark.postgres

    def test_a_token_is_shown_once_and_listed_without_itself(self, postgres_url: str) -> None:
        """Create prints it; list never does; revoke ends it."""
        env = {"DIRECTOR_DATABASE_URL": postgres_url}
        token = run("token", "create", "edge", "--scope", "decide:acme", **env).stdout.strip()
        assert token.startswith("rd_")
        listed = run("token", "list", **env).stdout
        assert "decide:acme" in listed
        assert token not in listed
        assert run("token", "create", "edge", "--scope", "read", **env).exit_code == 1
        assert run("token", "revoke", "edge", **env).exit_code == 0
        assert run("token", "revoke", "edge", **env).exit_code == 1

    @pytest.mark.parametrize("scope", ["report", "decide:", "admin", "read:x", "report:a:b"])
    def test_a_scope_that_means_nothing_is_refused(self, scope: str) -> None:
        """A token that silently allows nothing would be found out too late."""
        told = run("token", "create", "edge", "--scope", scope, DIRECTOR_DATABASE_URL="postgresql://x@/y?host=/nowhere")
        assert told.exit_code == 2
        assert "report:REGION" in told.output

    def test_an_unreachable_database_is_one_line(self) -> None:
        """Not a traceback."""
        told = run("token", "list", DIRECTOR_DATABASE_URL="postgresql://x@/y?host=/nowhere")
        assert told.exit_code == 1
        assert "cannot be reached" in told.output

    @pytest.mark.parametrize("url", ["mysql://x", "nonsense"])
    def test_another_databases_url_is_refused(self, url: str) -> None:
        """There is one dialect."""
        told = run("migrate", DIRECTOR_DATABASE_URL=url)
        assert told.exit_code == 2
        assert "postgresql://" in told.output

    def test_no_database_at_all(self, tmp_path: Path) -> None:
        """Neither a URL nor a running director: what to do is said."""
        told = run("token", "list", "--data", str(tmp_path))
        assert told.exit_code == 2
        assert "DIRECTOR_DATABASE_URL" in told.output
