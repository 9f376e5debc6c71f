"""Writes the dashboards beside it: `python deploy/grafana/make.py`.

A dashboard is a list of rows, a row a list of panels, so that what is looked at is read here and not in JSON. Queries
use the metrics of docs/metrics.md and the rules of deploy/prometheus/rules.yml, and nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
WIDTH = 24
HEIGHT = 8
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
ONE = '{region=~"$region", model=~"$model"}'
BY = "by (region, model, version)"


class Panel(NamedTuple):
    """`queries`: (expression, legend). `unit`: Grafana's name of it."""

    title: str
    queries: list[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""
    stacked: bool = False


def quantile(q: float, metric: str, by: str = "") -> str:
    inner = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({inner}) (rate({metric}_bucket[5m])))"


FLEET = [
    [
        Panel(
            "Refused", [("director:refused:ratio", "")], "percentunit", "stat", "Questions that no region is left for."
        ),
        Panel("Overloaded", [("director:overloaded:ratio", "")], "percentunit", "stat", "Decisions to full regions."),
        Panel("Decisions", [("sum(rate(director_decisions_total[1m]))", "")], "reqps", "stat"),
        Panel(
            "Regions not fresh",
            [('sum(max by (region) (director_region_freshness{freshness=~"stale|lost"})) or vector(0)', "")],
            kind="stat",
        ),
        Panel(
            "Breakers open",
            [("sum(max by (region, model, version) (director_deployment_breaker_open) == bool 1) or vector(0)", "")],
            kind="stat",
        ),
        Panel("Static", [("max(director_static)", "")], kind="stat", about="1: decisions rest on an old plan."),
    ],
    [
        Panel(
            "Demand ÷ capacity by model",
            [("director:model_demand_capacity:ratio", "{{model}}")],
            "percentunit",
            about="Over the whole fleet. Above 0.9 no region has room for another's overflow.",
        ),
        Panel(
            "Demand ÷ capacity by region",
            [('director:region_demand_capacity:ratio{region=~"$region"}', "{{region}}")],
            "percentunit",
            about="Shedding included: what autoscalers should see.",
        ),
        Panel(
            "Utilisation",
            [(f"max {BY} (director_deployment_utilisation_ratio{ONE})", "{{region}} {{model}} {{version}}")],
            "percentunit",
            about="As the regions report it.",
        ),
    ],
    [
        Panel(
            "Decisions by region",
            [
                (
                    'sum by (region) (rate(director_decisions_total{region=~"$region", model=~"$model"}[1m]))',
                    "{{region}}",
                )
            ],
            "reqps",
            stacked=True,
        ),
        Panel(
            "Decisions by reason",
            [
                (
                    'sum by (reason) (rate(director_decisions_total{region=~"$region", model=~"$model"}[1m]))',
                    "{{reason}}",
                )
            ],
            "reqps",
            stacked=True,
        ),
        Panel(
            "Refusals by code", [("sum by (code) (rate(director_decision_refusals_total[1m]))", "{{code}}")], "reqps"
        ),
    ],
    [
        Panel(
            "Home admitted",
            [(f"max {BY} (director_deployment_admit_home_ratio{ONE})", "{{region}} {{model}} {{version}}")],
            "percentunit",
            about="Below 1 a deployment sheds.",
        ),
        Panel(
            "Guests admitted",
            [(f"max {BY} (director_deployment_admit_overflow_ratio{ONE})", "{{region}} {{model}} {{version}}")],
            "percentunit",
        ),
        Panel(
            "Headroom for guests",
            [(f"max {BY} (director_deployment_headroom_tokens_per_second{ONE})", "{{region}} {{model}} {{version}}")],
        ),
    ],
    [
        Panel(
            "Capacity, tokens/s",
            [
                (
                    'director:deployment_capacity:tokens_per_second{region=~"$region", model=~"$model"}',
                    "{{region}} {{model}}",
                )
            ],
            stacked=True,
        ),
        Panel(
            "Demand, tokens/s",
            [
                (
                    'director:deployment_demand:tokens_per_second{region=~"$region", model=~"$model"}',
                    "{{region}} {{model}}",
                )
            ],
            stacked=True,
        ),
        Panel(
            "Ready replicas",
            [(f"max {BY} (director_deployment_ready_replicas{ONE})", "{{region}} {{model}} {{version}}")],
        ),
    ],
    [
        Panel(
            "Time to first token, p95",
            [(f"max {BY} (director_deployment_ttft_p95_seconds{ONE})", "{{region}} {{model}} {{version}}")],
            "s",
        ),
        Panel(
            "Errors",
            [(f"max {BY} (director_deployment_error_ratio{ONE})", "{{region}} {{model}} {{version}}")],
            "percentunit",
        ),
        Panel(
            "Breaker",
            [(f"max {BY} (director_deployment_breaker_open{ONE})", "{{region}} {{model}} {{version}}")],
            about="1 open, 0.5 half open.",
        ),
    ],
    [
        Panel(
            "Age of reports",
            [('max by (region) (director_region_report_age_seconds{region=~"$region"})', "{{region}}")],
            "s",
        ),
        Panel("Sessions", [("sum by (affinity) (rate(director_decisions_total[1m]))", "{{affinity}}")], "reqps"),
        Panel("Outcomes", [("sum by (class) (rate(director_outcomes_total[1m]))", "{{class}}")], "reqps"),
    ],
]

PROCESSES = [
    [
        Panel("Plan age", [("max(director_plan_age_seconds)", "")], "s", "stat"),
        Panel("Leader", [("sum(director_leader)", "")], kind="stat", about="Planners that hold the lease: 1."),
        Panel("Epoch", [("max(director_plan_epoch)", "")], "none", "stat"),
        Panel("Policy", [("max(director_policy_version)", "")], "none", "stat"),
        Panel("Database away", [("sum(director_database_away)", "")], kind="stat", about="Replicas without Postgres."),
        Panel("Ready", [("sum(director_ready)", "")], kind="stat", about="Replicas that can decide."),
    ],
    [
        Panel(
            "Time of a decision",
            [(quantile(q, "director_decision_seconds"), f"p{q * 100:g}") for q in (0.5, 0.99)],
            "s",
            about="From a whole request to its answer's bytes.",
        ),
        Panel(
            "Decisions by replica",
            [("sum by (instance) (rate(director_decisions_total[1m]))", "{{instance}}")],
            "reqps",
        ),
        Panel("Plan age by replica", [("max by (instance) (director_plan_age_seconds)", "{{instance}}")], "s"),
    ],
    [
        Panel(
            "Time of a tick",
            [(quantile(q, "director_planner_tick_seconds"), f"p{q * 100:g}") for q in (0.5, 0.9)]
            + [(quantile(0.9, "director_planner_step_seconds"), "p90 of the step alone")],
            "s",
        ),
        Panel("Ticks", [("sum by (result) (rate(director_planner_ticks_total[1m]))", "{{result}}")], "ops"),
        Panel(
            "Plans and events",
            [
                ("sum(rate(director_plans_published_total[1m]))", "plans"),
                ("sum by (kind) (rate(director_planner_events_total[1m]))", "{{kind}}"),
            ],
            "ops",
        ),
    ],
    [
        Panel("Reports", [("sum by (outcome) (rate(director_reports_total[1m]))", "{{outcome}}")], "ops"),
        Panel(
            "Deployments left out",
            [("sum by (region) (rate(director_report_deployments_dropped_total[1m]))", "{{region}}")],
            "ops",
        ),
        Panel(
            "Arrivals ÷ decided",
            [(f"max {BY} (director_deployment_arrivals_correction)", "{{region}} {{model}} {{version}}")],
            about="1 when token estimates are right.",
        ),
    ],
    [
        Panel(
            "DNS answers",
            [("sum by (rcode) (rate(director_dns_answers_total[1m]))", "{{rcode}}")],
            "reqps",
            stacked=True,
        ),
        Panel(
            "DNS by zone",
            [("sum by (zone, type) (rate(director_dns_answers_total[1m]))", "{{zone}} {{type}}")],
            "reqps",
        ),
        Panel("DNS limits", [("sum by (why) (rate(director_dns_limited_total[1m]))", "{{why}}")], "reqps"),
        Panel("DNS batch, p99", [(quantile(0.99, "director_dns_batch_seconds"), "p99")], "s"),
    ],
    [
        Panel(
            "CPU", [('rate(process_cpu_seconds_total{job=~"director-.*"}[1m])', "{{job}} {{instance}}")], "percentunit"
        ),
        Panel("Memory", [('process_resident_memory_bytes{job=~"director-.*"}', "{{job}} {{instance}}")], "bytes"),
        Panel(
            "Agents: reports",
            [("sum by (instance, result) (rate(director_agent_reports_total[1m]))", "{{instance}} {{result}}")],
            "ops",
        ),
        Panel(
            "Agents: silent engines",
            [('sum by (instance) (director_agent_targets{state="silent"})', "{{instance}}")],
        ),
    ],
]


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panel(number: int, panel: Panel, x: int, y: int, width: int) -> dict[str, Any]:
    height = HEIGHT // 2 if panel.kind == "stat" else HEIGHT
    custom = {"fillOpacity": 20, "stacking": {"mode": "normal"}} if panel.stacked else {}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": width, "h": height},
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression, "legendFormat": legend or "__auto"}
            for i, (expression, legend) in enumerate(panel.queries)
        ],
    }


def dashboard(uid: str, title: str, rows: list[list[Panel]], variables: list[dict[str, Any]]) -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        width = WIDTH // len(row)
        for i, panel in enumerate(row):
            panels.append(_panel(len(panels) + 1, panel, i * width, y, width))
        y += max(one["gridPos"]["h"] for one in panels[-len(row) :])
    return {
        "uid": uid,
        "title": title,
        "tags": ["region-director"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}, *variables],
        },
        "panels": panels,
    }


REGION = _variable("region", "label_values(director_region_freshness, region)")
MODEL = _variable("model", "label_values(director_deployment_capacity_tokens_per_second, model)")

DASHBOARDS = {
    "fleet.json": dashboard("director-fleet", "Region Director: fleet", FLEET, [REGION, MODEL]),
    "processes.json": dashboard("director-processes", "Region Director: processes", PROCESSES, []),
}


def text(name: str) -> str:
    return json.dumps(DASHBOARDS[name], indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in DASHBOARDS:
        (FOLDER / name).write_text(text(name), encoding="utf-8")
