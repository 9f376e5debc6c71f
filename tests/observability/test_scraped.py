"""A real Prometheus scrapes a real tree: every rule and every panel can be evaluated, and the figures are there."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.tree import REGIONS, Tree, command, live_tree
from tests.observability.test_rules import PANELS, PROMETHEUS, RULES
from tests.serve.processes import free_port, wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.postgres,
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed"),
]

JOBS = ("director-api", "director-dns", "director-planner")


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **query: str) -> Any:
        """The `data` of an answer; None while nobody answers. AssertionError for a query that it refuses."""
        try:
            with urllib.request.urlopen(f"{self._url}{path}?{urllib.parse.urlencode(query)}", timeout=5) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is starting
                return None
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        except OSError:
            return None

    def ask(self, expression: str) -> list[tuple[dict[str, str], float]]:
        told = self.get("/query", query=expression)
        return [(one["metric"], float(one["value"][1])) for one in told["result"]] if told else []


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tree, Prometheus]]:
    folder = tmp_path_factory.mktemp("scraped")
    dns, planner, port = free_port(), free_port(), free_port()
    options = ("--dns-metrics-port", str(dns), "--planner-metrics-port", str(planner))
    with live_tree(folder, options=options) as (tree, _):
        (folder / "token").write_text(tree.token)
        shutil.copy(PROMETHEUS / "rules.yml", folder)
        jobs = [
            {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{at}"]}]}
            for name, at in zip(JOBS, (tree.http, dns, planner), strict=True)
        ]
        jobs[0]["authorization"] = {"credentials_file": "token"}
        every = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
        settings = {"global": every, "rule_files": ["rules.yml"], "scrape_configs": jobs}
        (folder / "prometheus.json").write_text(json.dumps(settings))  # JSON is YAML
        with (folder / "prometheus.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    "prometheus",
                    "--config.file=prometheus.json",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--storage.tsdb.path=tsdb",
                ],
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        prometheus = Prometheus(port)
        try:
            wait_for(lambda: len(prometheus.ask("up == 1")) == len(JOBS), why="all three are scraped")
            wait_for(lambda: prometheus.ask("sum(director_leader) == 1"), why="the leader is seen")
            yield tree, prometheus
        finally:
            process.terminate()
            process.wait(10)


def test_figures_of_all_roles_are_there(scraped: tuple[Tree, Prometheus]) -> None:
    """What was decided over HTTP and DNS is counted; plan and reports are told."""
    tree, prometheus = scraped
    for n in range(20):
        assert tree.select(session=f"s{n}").status == 200
    assert tree.resolve("chat.infer.example.com", "203.0.113.0/24")
    wait_for(lambda: [v for _, v in prometheus.ask("sum(director_decisions_total)") if v >= 20], why="decisions")
    wait_for(lambda: prometheus.ask('director_dns_answers_total{rcode="NOERROR"} > 0'), why="DNS answers")
    wait_for(
        lambda: len(prometheus.ask('director_region_freshness{freshness="fresh"} == 1')) == len(REGIONS), why="fresh"
    )
    ages = prometheus.ask("director_region_report_age_seconds")
    assert {labels["region"] for labels, _ in ages} == set(REGIONS)
    assert prometheus.ask("director_static") == [(prometheus.ask("director_static")[0][0], 0.0)]


def test_every_rule_is_evaluated_and_none_of_the_grave_ones_fires(scraped: tuple[Tree, Prometheus]) -> None:
    """Prometheus itself calls each of them sound, and a tree that is well raises nothing."""
    _, prometheus = scraped
    wait_for(lambda: prometheus.ask("director:deployment_capacity:tokens_per_second"), why="rules were evaluated")
    told = [rule for group in prometheus.get("/rules")["groups"] for rule in group["rules"]]
    assert len(told) == len(RULES)
    assert [rule["name"] for rule in told if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in told if rule.get("state") == "firing"] == []


def test_every_panel_can_be_shown(scraped: tuple[Tree, Prometheus]) -> None:
    """No query is refused; most have something to show already."""
    _, prometheus = scraped

    def shown() -> int:
        count = 0
        for name, title, expression in PANELS:
            plain = expression.replace("$region", ".*").replace("$model", ".*")
            assert prometheus.get("/query", query=plain) is not None, f"{name}: {title}"
            count += bool(prometheus.ask(plain))
        return count

    # A rate has nothing to show before its second scrape.
    wait_for(lambda: shown() > len(PANELS) * 0.6, why="most panels show something")


def test_a_drained_region_shows_within_seconds(scraped: tuple[Tree, Prometheus]) -> None:
    """From the command line to the figure that an alert reads."""
    tree, prometheus = scraped
    env = {"DIRECTOR_URL": f"http://127.0.0.1:{tree.http}", "DIRECTOR_TOKEN": tree.token}
    command("drain", REGIONS[0], "--reason", "test", env=env)
    wait_for(
        lambda: prometheus.ask(f'director_region_draining{{region="{REGIONS[0]}"}} == 1'), why="the drain is exported"
    )
    command("undrain", REGIONS[0], "--reason", "test", env=env)
