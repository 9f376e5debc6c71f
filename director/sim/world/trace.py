"""Arrivals from public trace files.

`azure`: CSV with TIMESTAMP (seven fractional digits), ContextTokens, GeneratedTokens. `mooncake`: JSON lines with
timestamp (ms), input_length, output_length. A trace that is shorter than the scenario starts again.
"""

from __future__ import annotations

import csv
import json
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TextIO

from director.sim.scenario import TraceFile


class TraceUnusable(ValueError):
    """The file is missing, empty, or a line is not in its format. The message names file and line."""


class TraceArrivals:
    def __init__(self, trace: TraceFile) -> None:
        rows = sorted(_READERS[trace.format](Path(trace.path)))
        if not rows:
            raise TraceUnusable(f"{trace.path}: no requests in it")
        self.length_s = max(1, int(rows[-1][0]) + 1)
        self._times = [row[0] for row in rows]
        self._rows = rows
        self._scale = trace.scale
        self._shift_s = int(trace.shift_s)
        self._due = 0.0
        self._lengths: deque[tuple[float, float]] = deque()

    def times(self, second: int) -> list[float]:
        """Arrivals of this second; `lengths` gives their tokens in the same order."""
        at_s = (second + self._shift_s) % self.length_s
        first, last = bisect_left(self._times, at_s), bisect_left(self._times, at_s + 1)
        times = []
        for when_s, prompt, generated in self._rows[first:last]:
            self._due += self._scale
            while self._due >= 1.0:
                self._due -= 1.0
                times.append(second + when_s - at_s)
                self._lengths.append((max(1.0, prompt), max(1.0, generated)))
        return times

    def lengths(self) -> tuple[float, float]:
        return self._lengths.popleft()


def _azure(path: Path) -> Iterator[tuple[float, float, float]]:
    start: float | None = None
    with _open(path) as lines:
        for number, row in enumerate(csv.DictReader(lines), start=2):
            try:
                # Python's parser takes six fractional digits.
                at_s = datetime.fromisoformat(row["TIMESTAMP"][:26] + "+00:00").timestamp()
                prompt, generated = float(row["ContextTokens"]), float(row["GeneratedTokens"])
            except (KeyError, ValueError, TypeError) as error:
                expected = "expected TIMESTAMP, ContextTokens, GeneratedTokens"
                raise TraceUnusable(f"{path}:{number}: {expected}") from error
            start = at_s if start is None else start
            yield at_s - start, prompt, generated


def _mooncake(path: Path) -> Iterator[tuple[float, float, float]]:
    with _open(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                yield row["timestamp"] / 1000.0, float(row["input_length"]), float(row["output_length"])
            except (KeyError, ValueError, TypeError) as error:
                expected = "expected timestamp, input_length, output_length"
                raise TraceUnusable(f"{path}:{number}: {expected}") from error


def _open(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise TraceUnusable(f"{path}: {error.strerror}") from error


_READERS = {"azure": _azure, "mooncake": _mooncake}
