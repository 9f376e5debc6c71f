"""Prometheus's text format, version 0.0.4, written directly.

A plan with 10,000 deployments is 130,000 lines: the client library takes two seconds for them, and a scrape must not
hold up decisions. Label sets that many metrics share are written once (`labels`) and passed on as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from director.metrics.metric import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def labels(metric: Metric, **values: str) -> str:
    """The label set of one sample, as text. Every declared label, and no other."""
    assert len(values) == len(metric.labels)
    if not values:
        return ""
    return "{" + ",".join([f'{name}="{_escaped(values[name])}"' for name in metric.labels]) + "}"


class Page:
    """An exposition under construction."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def one(self, metric: Metric, value: float) -> None:
        """A metric without labels."""
        self.many(metric, [("", value)])

    def many(self, metric: Metric, samples: Iterable[tuple[str, float]]) -> None:
        """A counter or gauge: (label set as `labels` writes it, value)."""
        (name,) = metric.exposed
        self._head(metric, name)
        self._lines += [f"{name}{told} {number(value)}" for told, value in samples]

    def histogram(self, metric: Metric, counts: Sequence[int], sum_value: float) -> None:
        """`counts` by bucket, each by itself; one more than `bounds`."""
        self._head(metric, metric.name)
        total = 0
        for bound, count in zip((*metric.bounds, math.inf), counts, strict=True):
            total += count
            self._lines.append(f'{metric.name}_bucket{{le="{_bound(bound)}"}} {number(total)}')
        self._lines.append(f"{metric.name}_count {number(total)}")
        self._lines.append(f"{metric.name}_sum {number(sum_value)}")

    def text(self) -> str:
        return "\n".join([*self._lines, ""]) if self._lines else ""

    def _head(self, metric: Metric, name: str) -> None:
        told = metric.text.replace("\\", r"\\").replace("\n", r"\n")
        self._lines.append(f"# HELP {name} {told}\n# TYPE {name} {metric.kind}")


def number(value: float) -> str:
    """A value as Prometheus reads it."""
    value = float(value)
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _bound(bound: float) -> str:
    return "+Inf" if bound == math.inf else f"{bound:g}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
