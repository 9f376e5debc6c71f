"""The command line: what there is, and the commands that work without a running director."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from director.cli import COMMANDS
from director.resources import policies_dir
from tests.serve.cli import run

NOW = "2026-11-30T20:51:07Z"


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
