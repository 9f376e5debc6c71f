"""Alert rules and dashboards: they ask for what is exported, and each alert is tested and explained."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from director.metrics.catalog import CATALOG
from tests.observability.promql import names, problems

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
GRAFANA = ROOT / "deploy" / "grafana"


TESTS = ("rules_test.yml", "rules_slow_test.yml")


def read(name: str) -> Any:
    return YAML(typ="safe").load((PROMETHEUS / name).read_text(encoding="utf-8"))


RULES = [rule for group in read("rules.yml")["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
PANELS = [
    (path.name, panel["title"], target["expr"])
    for path in sorted(GRAFANA.glob("*.json"))
    for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]
    for target in panel["targets"]
]


@pytest.mark.system
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("arguments", [("check", "rules", "rules.yml"), ("test", "rules", *TESTS)])
def test_promtool_agrees(arguments: tuple[str, ...]) -> None:
    """The rules are valid, and fire when their tests say so and at no other time."""
    done = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.system
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_the_shipped_configuration_is_valid(tmp_path: Path) -> None:
    """As it is, but for the token that everybody makes for themselves."""
    for name in ("prometheus.yml", "rules.yml"):
        shutil.copy(PROMETHEUS / name, tmp_path)
    (tmp_path / "director-read.token").write_text("t")
    done = subprocess.run(
        ["promtool", "check", "config", "prometheus.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_rules_ask_for_what_is_exported(rule: dict[str, Any]) -> None:
    """Metrics by their names, labels that they have."""
    assert names(rule["expr"])
    assert problems(rule["expr"], RECORDED) == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule["alert"])
def test_each_alert_is_tested_and_has_a_page(alert: dict[str, Any]) -> None:
    """A test sees it fire; docs/operations.md says what it means, what to look at, what to do."""
    expected = "".join((PROMETHEUS / name).read_text(encoding="utf-8") for name in TESTS)
    assert f'{{alertname="{alert["alert"]}"' in expected
    assert alert["labels"]["severity"] in ("critical", "warning")
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert anchor == alert["alert"].lower()
    section = re.search(rf"^### {alert['alert']}\n(.*?)(?=^##|\Z)", (ROOT / page).read_text("utf-8"), re.M | re.S)
    assert section is not None, f"{page} has no section {alert['alert']}"
    for part in ("**Means**", "**Look**", "**Do**"):
        assert part in section[1], f"{alert['alert']}: {part}"


def test_no_page_explains_an_alert_that_is_not() -> None:
    """A section of an alert that was renamed helps nobody."""
    sections = re.findall(r"^### (Director\w+)$", (ROOT / "docs" / "operations.md").read_text("utf-8"), re.M)
    assert sorted(sections) == sorted(rule["alert"] for rule in ALERTS)


@pytest.mark.parametrize(("name", "title", "expression"), PANELS, ids=lambda value: str(value)[:40])
def test_panels_ask_for_what_is_exported(name: str, title: str, expression: str) -> None:
    """Metrics by their names, labels that they have."""
    assert names(expression), f"{name}: {title}"
    assert problems(expression, RECORDED) == []


def test_dashboards_are_those_of_their_source() -> None:
    """`python deploy/grafana/make.py` renews them."""
    made = runpy.run_path(str(GRAFANA / "make.py"))
    assert {path.name for path in GRAFANA.glob("*.json")} == set(made["DASHBOARDS"])
    for name in made["DASHBOARDS"]:
        assert made["text"](name) == (GRAFANA / name).read_text(encoding="utf-8"), name


def test_panels_lie_beside_each_other() -> None:
    """No panel covers another, none leaves the grid, ids are unique."""
    for path in GRAFANA.glob("*.json"):
        panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        cells: set[tuple[int, int]] = set()
        for panel in panels:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24
            own = {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}
            assert not own & cells, f"{path.name}: {panel['title']}"
            cells |= own


def test_a_name_that_nothing_exports_is_found() -> None:
    """The check itself: a wrong name, a wrong label in a selector, a wrong label in a grouping."""
    assert problems("sum(director_nonsense)", RECORDED)
    assert problems('director_ready{region="eu"}', RECORDED)
    assert problems("sum by (cluster) (director_ready)", RECORDED)
    assert (
        problems('sum by (region) (rate(director_decisions_total{reason="home", instance=~"a.*"}[1m]))', RECORDED) == []
    )


def test_every_state_that_hurts_has_a_rule() -> None:
    """What is declared to tell trouble is asked for by a rule."""
    asked = {name for rule in RULES for name in names(rule["expr"])}
    for name in ("director_static", "director_database_away", "director_leader", "director_deployment_breaker_held_in"):
        assert name in CATALOG
        assert name in asked
