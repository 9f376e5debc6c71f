"""Prometheus text → the samples a reader wants.

A region's dump is mostly histogram buckets nobody asks for, and the same few hundred series come back every interval
from every replica. So the text of a series is parsed once and remembered: a line costs one dictionary lookup and,
where somebody wants the series, one `float()`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

Labels = Mapping[str, str]

MEMO_SERIES_MAX = 200_000
"""Distinct series texts remembered. A label with a client's identity in it must not grow the agent without end."""

MEMO_CHARACTERS_MAX = 50_000_000
"""Of all remembered texts together: a label may also be long."""

_BEFORE_EXEMPLAR = re.compile(r'((?:[^"#]|"(?:[^"\\]|\\.)*")*) # ')
"""OpenMetrics writes `series value # {labels} value`. A `#` between a label's quotes is the label's own."""


class NotUnderstood(Exception):
    """The bytes are not what this reader reads. The text says what they look like and what to do."""


class Sample(NamedTuple):
    labels: Labels
    value: float


class Dump:
    """One scrape's wanted samples, by name. `lines` counts every sample line, wanted or not."""

    __slots__ = ("lines", "malformed", "samples")

    def __init__(self) -> None:
        self.samples: dict[str, list[Sample]] = {}
        self.lines = 0
        self.malformed = 0

    def get(self, name: str) -> list[Sample]:
        return self.samples.get(name, [])

    def __contains__(self, name: object) -> bool:
        return name in self.samples


class ExpositionParser:
    """Parses dumps, keeping the names in `wanted`. One per agent: its memory of series is shared by all replicas."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self._wanted = wanted
        self._memo: dict[str, tuple[str, Labels] | None] = {}
        self._memo_characters = 0
        self._distinct: dict[tuple[str, frozenset[tuple[str, str]]], tuple[str, Labels]] = {}
        """The one object for all spellings of a series, so that a repeat is seen by identity."""

    def parse(self, text: str) -> Dump:
        """Raises `NotUnderstood` where the text is plainly something else (HTML, JSON).

        Of a series that stands there twice the first is taken, as Prometheus does: a figure is never counted double.
        """
        _refuse_other_formats(text)
        dump = Dump()
        memo = self._memo
        samples = dump.samples
        taken: set[int] = set()
        lines = 0
        for line in text.split("\n"):
            if not line or line[0] == "#":
                continue
            lines += 1
            if " # " in line and (plain := _BEFORE_EXEMPLAR.match(line)):
                line = plain[1]
            end = line.rfind("}") + 1 or line.find(" ")
            if end <= 0:
                dump.malformed += 1
                continue
            series = line[:end]
            try:
                known = memo[series]
            except KeyError:
                try:
                    known = self._learn(series)
                except ValueError:
                    dump.malformed += 1
                    continue
            if known is None:
                continue
            try:
                value = float(line[end:])
            except ValueError:
                value_or_none = _value_before_timestamp(line[end:])
                if value_or_none is None:
                    dump.malformed += 1
                    continue
                value = value_or_none
            if id(known) in taken:
                continue
            taken.add(id(known))
            name, labels = known
            samples.setdefault(name, []).append(Sample(labels, value))
        dump.lines = lines
        return dump

    def _learn(self, series: str) -> tuple[str, Labels] | None:
        name, brace, rest = series.partition("{")
        name = name.strip()
        if not name or " " in name:
            raise ValueError(series)
        if len(self._memo) >= MEMO_SERIES_MAX or self._memo_characters > MEMO_CHARACTERS_MAX:
            self._memo.clear()
            self._distinct.clear()
            self._memo_characters = 0
        known = None
        if name in self._wanted:
            labels = parse_labels(rest[:-1]) if brace else {}
            known = self._distinct.setdefault((name, frozenset(labels.items())), (name, labels))
        self._memo[series] = known
        self._memo_characters += len(series)
        return known


def parse_labels(text: str) -> dict[str, str]:
    """`a="1", b="x\\"y"` → a dict. Spaces may stand around commas. Raises ValueError where the text is broken."""
    labels: dict[str, str] = {}
    at = 0
    while True:
        while at < len(text) and text[at] in " ,\t":
            at += 1
        if at >= len(text):
            return labels
        equals = text.index("=", at)
        name = text[at:equals].strip()
        start = text.index('"', equals) + 1
        end = start
        while text[end : end + 1] != '"':
            if end >= len(text):
                raise ValueError(f"label {name} is not closed")
            end += 2 if text[end] == "\\" else 1
        labels[name] = _unescape(text[start:end])
        at = end + 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return text.replace("\\\\", "\0").replace('\\"', '"').replace("\\n", "\n").replace("\0", "\\")


def _value_before_timestamp(text: str) -> float | None:
    """`value timestamp`: the value alone."""
    parts = text.split()
    try:
        return float(parts[0])
    except (IndexError, ValueError):
        return None


def _refuse_other_formats(text: str) -> None:
    head = text[:64].lstrip()
    if head.startswith("<"):
        raise NotUnderstood("answered HTML, not Prometheus text: is this the metrics port and path?")
    if head.startswith(("[", "{")):
        raise NotUnderstood("answered JSON, not Prometheus text (trtllm-serve has its text at /prometheus/metrics)")
