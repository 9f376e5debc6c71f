"""What a PromQL expression asks for: metric names and labels, found well enough to hold them to the catalog."""

from __future__ import annotations

import re

from director.metrics.catalog import CATALOG
from director.metrics.metric import Metric

PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Of the client library: used, and not declared by us."""
SCRAPE = {"instance", "job", "le", "alertname", "alertstate"}
"""Labels that Prometheus adds."""

EXPOSED: dict[str, Metric] = {name: metric for metric in CATALOG.values() for name in metric.exposed}

_STRING = re.compile(r'"[^"]*"')
_NAME = re.compile(r"\b(?:director|process)[_:][\w:]+|\bup\b")
_SELECTOR = re.compile(r"(director_\w+)\s*\{([^}]*)\}")


def names(expression: str) -> set[str]:
    """Metrics and recorded series of an expression."""
    return set(_NAME.findall(_STRING.sub('""', expression)))


def problems(expression: str, recorded: set[str]) -> list[str]:
    """Names that nothing exports, and labels that their metric does not have."""
    found = [
        f"{name} is not declared"
        for name in names(expression)
        if name not in EXPOSED and name not in PROCESS and name not in recorded and name != "up"
    ]
    for name, matchers in _SELECTOR.findall(expression):
        told = set(re.findall(r"(\w+)\s*(?:=|!)", _STRING.sub('""', matchers)))
        found += [
            f"{name} has no label {one}" for one in told - SCRAPE - set(EXPOSED[name].labels if name in EXPOSED else ())
        ]
    known = {label for metric in CATALOG.values() for label in metric.labels} | SCRAPE
    for group in re.findall(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)", expression):
        found += [f"no metric has the label {one}" for one in set(re.findall(r"\w+", group)) - known]
    return found
