"""The tables of docs/metrics.md, made of the catalog: `python -m director.metrics.page docs/metrics.md` renews them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from director.metrics.catalog import CATALOG
from director.metrics.metric import LABELS, Metric, Role

BEGIN = "<!-- begin: made by director.metrics.page -->"
END = "<!-- end -->"

TITLES: dict[tuple[Role, ...], str] = {
    ("api", "dns", "planner", "agent"): "Every process",
    ("api",): "api",
    ("dns",): "dns",
    ("planner",): "planner",
    ("agent",): "agent",
}


def renewed(text: str) -> str:
    """The document with its tables made anew. Raises ValueError where it has no place for them."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"expected {BEGIN} and {END} around the tables")
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def tables() -> str:
    """A table for each role, and one of the labels."""
    parts = []
    for roles, title in TITLES.items():
        rows = [_row(metric) for metric in CATALOG.values() if metric.roles == roles]
        parts.append(_table(title, ("metric", "kind", "labels", "meaning"), rows))
    parts.append(_table("Labels", ("label", "values"), [(f"`{name}`", text) for name, text in LABELS.items()]))
    return "\n\n".join(parts)


def _row(metric: Metric) -> tuple[str, ...]:
    name = metric.exposed[0] if metric.kind == "counter" else metric.name
    return (f"`{name}`", metric.kind, ", ".join(metric.labels), metric.text)


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"## {title}", _line(columns), _line(("---",) * len(columns)), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
