"""Commands that ask a running director: what they send, what they print, how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from director.commands.top import bar
from director.resources import policies_dir
from tests.serve.cli import Stub, run
from tests.serve.cli import server as server


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
