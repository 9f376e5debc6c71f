"""JSON in which nothing is ambiguous.

Python's and msgspec's readers let the last of two equal names win, and take integers that no bigint column holds and
`NaN`, which JSON does not have. Here such a token becomes an `Unreadable` that stands where it was found, so that the
check of that field refuses it by its path, and one bad deployment does not spoil the report around it.
"""

from __future__ import annotations

import json
from typing import Any

from director.http.problem import FieldProblem

BIGINT_MAX = 2**63 - 1
BIGINT_DIGITS = 19


class Unreadable:
    """A token without a value here; `why` completes "expected …, got …"."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class NotJson(Exception):
    """The text is not JSON at all; `problem` says where."""

    def __init__(self, problem: FieldProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _integer(digits: str) -> int | Unreadable:
    if len(digits) <= BIGINT_DIGITS + 1:
        value = int(digits)
        if -BIGINT_MAX - 1 <= value <= BIGINT_MAX:
            return value
    return Unreadable("an integer beyond 2^63 - 1")


def _constant(name: str) -> Unreadable:
    return Unreadable(name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Unreadable:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return Unreadable(f"an object that gives {name!r} twice")
        seen.add(name)
    raise AssertionError("fewer names than pairs, yet none twice")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_constant=_constant)


def read_json(raw: bytes) -> Any:
    """The value of a JSON text in UTF-8. Raises `NotJson` for anything else, too deep included."""
    try:
        return _decoder.decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotJson(FieldProblem("", "JSON in UTF-8", f"an invalid byte at {error.start}")) from None
    except json.JSONDecodeError as error:
        got = f"{error.msg.lower()} at line {error.lineno}, column {error.colno}"
        raise NotJson(FieldProblem("", "JSON", got if raw else "nothing")) from None
    except RecursionError:
        raise NotJson(FieldProblem("", "JSON of moderate depth", "nesting too deep to read")) from None
