"""`director simulate`: its JSON, its page, its exit codes."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from director.sim import loading
from director.sim.command import simulate_command
from director.sim.kept import needed
from director.sim.scenario import Kept
from tests.sim.scenarios import SMALL

HOLDS = "checks: [{name: residency holds, measure: forbidden, equals: 0}]\n"
FAILS = "checks: [{name: nothing happens, measure: utilisation_max, at_most: 0}]\n"


def _run(tmp_path: Path, text: str, *options: str) -> Result:
    (tmp_path / "small.yaml").write_text(text)
    return CliRunner().invoke(simulate_command, [str(tmp_path / "small.yaml"), "--quiet", *options])


def test_json_has_the_figures_and_the_checks(tmp_path: Path) -> None:
    result = _run(tmp_path, SMALL + HOLDS, "--json", "--seed", "5", "--policies", "director,nearest")
    assert result.exit_code == 0
    out = json.loads(result.stdout)
    assert (out["scenario"], out["seed"], out["ok"]) == ("small", 5, True)
    assert set(out["policies"]) == {"director", "nearest"}
    assert out["policies"]["director"]["requests"] > 500
    assert out["checks"] == [{"name": "residency holds", "value": 0.0, "bound": "= 0", "ok": True}]


def test_a_check_that_fails_exits_1(tmp_path: Path) -> None:
    result = _run(tmp_path, SMALL + FAILS, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["ok"] is False


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_fleet_that_nobody_knows_yet_refuses_nothing(seed: str) -> None:
    """The shipped scenario that takes less than a second: it runs here as it is."""
    result = CliRunner().invoke(simulate_command, ["cold", "--quiet", "--json", "--seed", seed])
    assert (result.exit_code, json.loads(result.stdout)["ok"]) == (0, True), result.output


def test_the_terminal_shows_table_and_checks(tmp_path: Path) -> None:
    result = _run(tmp_path, SMALL + FAILS)
    assert result.exit_code == 1
    assert "director" in result.stdout
    assert "nothing happens" in result.stdout
    assert "fails" in result.stdout


KEPT = """\
kept:
  - {seed: 4, check: nothing happens, why: something always does}
  - {seed: 5, check: it is as good as nearest, why: it was not}
"""
COMPARED = """\
policies: [director, nearest, ramp]
checks:
  - {name: nothing happens, measure: utilisation_max, at_most: 0}
  - {name: it is as good as nearest, measure: utilisation_max, against: nearest, at_most: 2}
"""


def test_kept_seeds_run_again_and_say_whether_they_still_fail(tmp_path: Path) -> None:
    """Each with the value that its own seed gives, and its reason; one that holds now does not hide one that fails."""
    result = _run(tmp_path, SMALL + COMPARED + KEPT, "--kept", "--json")
    assert result.exit_code == 1
    out = json.loads(result.stdout)
    assert [(each["seed"], each["ok"]) for each in out["kept"]] == [(4, False), (5, True)]
    assert out["kept"][0]["why"] == "something always does"
    alone = json.loads(_run(tmp_path, SMALL + COMPARED, "--json", "--seed", "4").stdout)
    assert out["kept"][0]["value"] == alone["checks"][0]["value"]
    shown = _run(tmp_path, SMALL + COMPARED + KEPT, "--kept").stdout
    assert "holds now" in shown
    assert "something always does" in shown


def test_kept_seeds_that_hold_exit_0(tmp_path: Path) -> None:
    kept = "kept: [{seed: 2, check: residency holds, why: it once did not}]\n"
    assert _run(tmp_path, SMALL + HOLDS + kept, "--kept").exit_code == 0


def test_kept_seeds_are_the_files_own(tmp_path: Path) -> None:
    assert _run(tmp_path, SMALL + COMPARED + KEPT, "--kept", "--seed", "1").exit_code == 2


def test_a_kept_seed_runs_what_its_check_compares_and_no_more(tmp_path: Path) -> None:
    """Of three policies and two variants, those that the check names."""
    text = SMALL + COMPARED + "variants: [{name: a}, {name: b}]\n"
    loaded = loading.load_text(text, "small.yaml")
    runs = needed(loaded, Kept(5, "it is as good as nearest", "it was not", "b")).runs
    assert {variant: scenario.policies for variant, scenario in runs.items()} == {"b": ("director", "nearest")}
    assert [check.name for check in runs["b"].checks] == ["it is as good as nearest"]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (SMALL + "speed: 3\n", (), "unknown field `speed`"),
        (SMALL, ("--policies", "directr"), 'did you mean "director"?'),
        (SMALL + HOLDS.replace("forbidden", "forbidden, policy: ramp"), (), "policy 'ramp' was not run"),
        (SMALL + HOLDS, ("--html", "/nonexistent/folder/page.html"), "No such file or directory"),
    ],
)
def test_unusable_input_exits_2_and_says_why(tmp_path: Path, text: str, options: tuple[str, ...], said: str) -> None:
    result = _run(tmp_path, text, *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_unknown_scenario_names_those_there_are() -> None:
    result = CliRunner().invoke(simulate_command, ["steps", "--quiet"])
    assert result.exit_code == 2
    assert "step" in result.stderr


class _Outside(HTMLParser):
    """Collects whatever a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag == "script":
            self.fetched.append("script")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone(tmp_path: Path) -> None:
    """One file: no script, nothing fetched, every element closed, a chart for each thing that is promised."""
    crowded = SMALL.replace("[[0, 0.5]]", "[[0, 2.0]]")
    result = _run(tmp_path, crowded + FAILS, "--html", str(tmp_path / "page.html"))
    assert result.exit_code == 1
    text = (tmp_path / "page.html").read_text()
    parser = _Outside()
    parser.feed(text)
    assert parser.fetched == []
    assert parser.open == []
    for title in ("Shares of demand north", "Utilisation", "Time to first token", "Refused", "Cost"):
        assert title in text


def test_names_from_the_file_are_escaped_on_the_page(tmp_path: Path) -> None:
    text = (SMALL + FAILS).replace("name: small", "name: '<b>small</b>'")
    _run(tmp_path, text, "--html", str(tmp_path / "page.html"))
    assert "<b>small</b>" not in (tmp_path / "page.html").read_text()
