"""What is wrong with a policy, said so that it can be found and put right."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str | int, ...]
"""Keys and list indices from the root of the merged policy."""

KEY_LENGTH_MAX = 255
"""Of a key in a path: a DNS name fits."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_*@-]{1,255}")


class Problem(Struct, frozen=True):
    """One finding. `line` counts from 1; 0 is the file as a whole."""

    file: str
    line: int
    path: str
    message: str
    expected: str = ""
    suggestion: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: " if self.file else ""
        where = f"{self.path}: " if self.path else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        suggestion = f'; did you mean "{self.suggestion}"?' if self.suggestion else ""
        return f"{place}{where}{self.message}{expected}{suggestion}"


class PolicyInvalid(ValueError):
    """The policy cannot be used. `problems` holds every finding, in the order of files and lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.file, problem.line, problem.path)))
        super().__init__("\n".join(map(str, self.problems)))


def dotted(path: Path) -> str:
    """`regions.eu-west-1.addresses.A[0]`; a key that holds a dot of its own stands in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _PLAIN_KEY.fullmatch(part) else shown(part, KEY_LENGTH_MAX)
            text += f".{key}" if text else key
    return text


def near_miss(word: str, candidates: Iterable[str]) -> str:
    """The candidate that `word` was probably meant to be, or ""."""
    by_fold = {candidate.casefold(): candidate for candidate in candidates}
    found = get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else ""


def shown(value: object, length_max: int = 60) -> str:
    """A value as a message quotes it: short, on one line."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    text = text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def one_of(candidates: Iterable[str], count_max: int = 8) -> str:
    """`one of a, b, c`; long lists are cut."""
    names = sorted(candidates)
    if not names:
        return "none: there are none to choose from"
    tail = f" and {len(names) - count_max} more" if len(names) > count_max else ""
    return ("one of " if len(names) > 1 else "") + ", ".join(names[:count_max]) + tail
