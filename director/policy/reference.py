"""The tables of docs/policy.md, made from the types.

`python -m director.policy.reference docs/policy.md` renews them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import NODEFAULT, Struct, inspect

from director.core.policy import Policy
from director.policy.shape import expectation

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN = "<!-- made from the types: begin -->"
END = "<!-- made from the types: end -->"


def tables() -> str:
    """One Markdown table for each kind of mapping: key, what it takes, default, effect."""
    root = inspect.type_info(Policy)
    assert isinstance(root, inspect.StructType)
    seen: dict[str, inspect.StructType] = {}
    _collect(root, "", seen)
    return "\n\n".join(_table(title, kind) for title, kind in seen.items())


def renewed(document: str) -> str:
    """The document with its tables as the types have them. Raises ValueError where the marks are missing."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{tables()}\n\n{END}{tail}"


def _collect(kind: inspect.StructType, path: str, seen: dict[str, inspect.StructType]) -> None:
    """Sections in the order of the file; a shape that stands in two places has its table at the first."""
    if any(known.cls is kind.cls for known in seen.values()):
        return
    seen[path] = kind
    for field in kind.fields:
        for suffix, inner in _structs(field.type):
            _collect(inner, ".".join(filter(None, (path, field.name + suffix))), seen)


def _structs(kind: inspect.Type) -> Iterator[tuple[str, inspect.StructType]]:
    if isinstance(kind, inspect.Metadata):
        yield from _structs(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from _structs(member)
    elif isinstance(kind, inspect.DictType):
        yield from ((f".NAME{suffix}", inner) for suffix, inner in _structs(kind.value_type))
    elif isinstance(kind, inspect.StructType):
        yield "", kind


def _table(path: str, kind: inspect.StructType) -> str:
    title = f"### `{path}`" if path else "### The top level"
    rows = [title, "", "| key | takes | default | effect |", "| --- | --- | --- | --- |"]
    for field in kind.fields:
        effect = field.type.extra_json_schema if isinstance(field.type, inspect.Metadata) else None
        words = (effect or {}).get("description", "")
        rows.append(f"| `{field.name}` | {_takes(field.type)} | {_default(field)} | {_cell(words)} |")
    return "\n".join(rows)


def _default(field: inspect.Field) -> str:
    if field.required:
        return "*required*"
    value: Any = field.default if field.default is not NODEFAULT else field.default_factory()
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"`{value:g}`"
    if isinstance(value, Struct) or not value:
        return "none" if not isinstance(value, Struct) else "its defaults"
    return f"`{value}`"


def _takes(kind: inspect.Type) -> str:
    """What a setting takes. The alphabet of names is told once, above the tables."""
    return _cell(re.sub(r"a name of .*? at most \d+ characters", "a name", expectation(kind)))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
