"""Checks of single fields, and of records built from them.

A check takes a JSON value, its path, and the notes of this reading; it returns the value to use or raises
`FieldRefused`. A record collects the refusals of all its fields, so that a sender learns everything at once.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from director.http.problem import FieldProblem
from director.http.reading.strict_json import Unreadable

RATIO_MAX = 1.05
"""A ratio just above 1 is a rounding of the sender's; beyond this it is a mistake."""
TEXT_CHARS_MAX = 512

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters would break headers and logs; lone surrogates have no UTF-8; NUL has no place in Postgres."""

Check = Callable[[Any, str, "Notes"], Any]


class Notes:
    """What one reading says beside its result."""

    def __init__(self, *, ignore_unknown: bool = False) -> None:
        self.ignore_unknown = ignore_unknown
        self.warnings: list[str] = []
        self.ignored: list[str] = []
        """Paths of unknown fields that were passed over."""


class FieldRefused(Exception):
    """One or more fields cannot be used."""

    def __init__(self, *problems: FieldProblem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


def describe(value: Any) -> str:
    """A value as an error message shows it: short, and harmless."""
    if isinstance(value, Unreadable):
        return value.why
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"


def refuse(path: str, expected: str, value: Any) -> FieldRefused:
    return FieldRefused(FieldProblem(path, expected, describe(value)))


def near_miss(name: str, known: Iterable[str]) -> str | None:
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def text(chars_max: int = TEXT_CHARS_MAX) -> Check:
    expected = f"a text of 1 to {chars_max} printable characters"

    def check(value: Any, path: str, notes: Notes) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= chars_max or _UNPRINTABLE.search(value):
            raise refuse(path, expected, value)
        return value

    return check


def one_of(*choices: str) -> Check:
    expected = "one of " + ", ".join(choices)

    def check(value: Any, path: str, notes: Notes) -> str:
        if isinstance(value, str) and value in choices:
            return value
        suggestion = near_miss(value, choices) if isinstance(value, str) else None
        raise FieldRefused(FieldProblem(path, expected, describe(value), suggestion))

    return check


def number(*, above: float | None = None, at_most: float | None = None) -> Check:
    """A finite number that is not negative."""
    expected = "a finite number, 0 or more" if above is None else f"a finite number above {above:g}"
    if at_most is not None:
        expected += f", at most {at_most:g}"

    def check(value: Any, path: str, notes: Notes) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise refuse(path, expected, value)
        if (above is not None and value <= above) or (at_most is not None and value > at_most):
            raise refuse(path, expected, value)
        return float(value)

    return check


def whole(*, at_least: int = 0) -> Check:
    """An integer of `at_least` or more that fits a bigint."""
    expected = f"an integer, {at_least} or more"

    def check(value: Any, path: str, notes: Notes) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise refuse(path, expected, value)
        return value

    return check


def ratio(value: Any, path: str, notes: Notes) -> float:
    """0 to 1; up to `RATIO_MAX` it is clamped, with a warning."""
    usable = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    if not usable or not 0 <= value <= RATIO_MAX:
        raise refuse(path, "a ratio, 0 to 1", value)
    if value > 1:
        notes.warnings.append(f"{path}: {value:g} is above 1 and was taken as 1")
        return 1.0
    return float(value)


def boolean(value: Any, path: str, notes: Notes) -> bool:
    if not isinstance(value, bool):
        raise refuse(path, "true or false", value)
    return value


def timestamp(value: Any, path: str, notes: Notes) -> str:
    """An RFC 3339 time with its offset."""
    if isinstance(value, str) and timestamp_ms(value) is not None:
        return value
    raise refuse(path, "an RFC 3339 time such as 2026-11-30T20:51:07Z", value)


def timestamp_ms(value: str) -> int | None:
    """Epoch milliseconds of an RFC 3339 time; None when it is none."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    try:
        return int(moment.astimezone(UTC).timestamp() * 1000)
    except OverflowError:
        return None


def listed(check_item: Check, *, items_max: int) -> Check:
    """A list, as a tuple."""

    def check(value: Any, path: str, notes: Notes) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise refuse(path, "a list", value)
        if len(value) > items_max:
            raise refuse(path, f"at most {items_max} entries", len(value))
        return tuple(check_item(item, f"{path}[{position}]", notes) for position, item in enumerate(value))

    return check


def record(build: Callable[..., Any], fields: Mapping[str, Check], required: tuple[str, ...] = ()) -> Check:
    """An object with exactly these fields; null is absent. `build` gets those that are present, by name."""

    def check(value: Any, path: str, notes: Notes) -> Any:
        if not isinstance(value, dict):
            raise refuse(path, "an object", value)
        prefix = f"{path}." if path else ""
        found: dict[str, Any] = {}
        problems: list[FieldProblem] = []
        for name, item in value.items():
            check_field = fields.get(name)
            if check_field is None:
                unknown_field(name, prefix, fields, notes, problems)
            elif item is not None:
                try:
                    found[name] = check_field(item, prefix + name, notes)
                except FieldRefused as refused:
                    problems.extend(refused.problems)
        refused_paths = {problem.path for problem in problems}
        problems.extend(
            FieldProblem(prefix + name, "a value: it is required", "nothing")
            for name in required
            if name not in found and not any(path.startswith(prefix + name) for path in refused_paths)
        )
        if problems:
            raise FieldRefused(*problems)
        return build(**found)

    return check


def unknown_field(name: str, prefix: str, fields: Iterable[str], notes: Notes, problems: list[FieldProblem]) -> None:
    """Pass an unknown field over, or refuse it with the nearest known name: a typo must never be silent."""
    if notes.ignore_unknown:
        notes.ignored.append(prefix + name)
        return
    known = sorted(fields)
    suggestion = near_miss(name, known)
    expected = "a known field" if suggestion else "one of " + ", ".join(known)
    problems.append(FieldProblem(prefix + name, expected, "an unknown field", suggestion))
