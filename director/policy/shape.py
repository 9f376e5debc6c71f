"""A tree against the core's types: unknown keys, wrong types, ranges, absences. Every problem, not the first alone.

What is wrong is left out of the result, so that the rules can still judge the rest. A rule must therefore never take an
absence in the result for an absence in the file.
"""

from __future__ import annotations

import math
import re
from typing import Any

from msgspec import NODEFAULT, inspect

from director.core.policy import Policy, Residency
from director.policy.problem import Path, Problem, dotted, near_miss, one_of, shown
from director.policy.tree import Leaf, Mapping, Node, Sequence, resolve

LEFT_OUT: Any = object()
"""What a value that cannot be used becomes."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BOOLEAN_WORDS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


class Shape:
    """Builds objects of the core's types and collects what does not fit."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def policy(self, root: Mapping) -> Policy:
        """What of the tree can be used. Sections that are missing or unusable are empty, and said to be."""
        built = self.fields(root, _POLICY, ())
        for field in _POLICY.fields:
            if field.required and field.name not in built:
                built[field.name] = () if field.name == "jurisdictions" else {}
        return Policy(**built)

    def say(self, node: Node, path: Path, message: str, expected: str = "", suggestion: str = "") -> Any:
        self.problems.append(Problem(node.file, node.line, dotted(path), message, expected, suggestion))
        return LEFT_OUT

    def value(self, node: Node, kind: inspect.Type, path: Path) -> Any:
        """The value of `kind` that `node` spells, or LEFT_OUT after saying why not."""
        if isinstance(kind, inspect.Metadata):
            return self.value(node, kind.type, path)
        if isinstance(kind, inspect.UnionType):
            return self.optional(node, kind, path)
        if isinstance(kind, inspect.StructType):
            return self.struct(node, kind, path)
        if isinstance(kind, inspect.DictType):
            return self.mapping(node, kind, path)
        if isinstance(kind, inspect.VarTupleType):
            return self.sequence(node, kind, path)
        if not isinstance(node, Leaf):
            return self.say(node, path, f"a {_kind_of(node)} stands here", expectation(kind))
        if isinstance(kind, inspect.StrType):
            return self.text(node, kind, path)
        if isinstance(kind, inspect.LiteralType):
            return self.literal(node, kind, path)
        if isinstance(kind, inspect.BoolType):
            return self.boolean(node, path)
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            return self.number(node, kind, path)
        raise TypeError(f"policy types use {kind!r}, which has no reading")

    def optional(self, node: Node, kind: inspect.UnionType, path: Path) -> Any:
        if isinstance(node, Leaf) and node.value is None:
            return None
        (present,) = (member for member in kind.types if not isinstance(member, inspect.NoneType))
        return self.value(node, present, path)

    def struct(self, node: Node, kind: inspect.StructType, path: Path) -> Any:
        if kind.cls is Residency and isinstance(node, Leaf) and node.value is not None:
            return self.residency_word(node, path)
        if not isinstance(node, Mapping):
            expected = f"a mapping with {', '.join(field.name for field in kind.fields[:4])} …"
            return self.say(node, path, f"{_article(node)} stands here", expected)
        before = len(self.problems)
        built = self.fields(node, kind, path)
        missing = [field.name for field in kind.fields if field.required and field.name not in built]
        if missing and len(self.problems) == before:
            raise AssertionError(f"{dotted(path)}: {missing} missing without a problem")
        return LEFT_OUT if missing else kind.cls(**built)

    def fields(self, node: Mapping, kind: inspect.StructType, path: Path) -> dict[str, Any]:
        """The usable fields of a mapping. Unknown keys, and required ones that are absent, are said."""
        known = {field.name: field for field in kind.fields}
        unused = [name for name in known if name not in node.entries]
        built: dict[str, Any] = {}
        mistaken: set[str] = set()
        for key, child in node.entries.items():
            field = known.get(key)
            if field is None:
                suggestion = near_miss(key, unused) or near_miss(key, known)
                mistaken.add(suggestion)
                file, line = node.marks[key]
                expected = "" if suggestion else one_of(known, 24)
                hint = "merge keys are no part of YAML 1.2" if key == "<<" else "unknown key"
                self.problems.append(Problem(file, line, dotted((*path, key)), hint, expected, suggestion))
                continue
            if (value := self.value(child, field.type, (*path, key))) is not LEFT_OUT:
                built[key] = value
        for name, field in known.items():
            if field.required and name not in node.entries and name not in mistaken:
                self.say(node, (*path, name), "is missing", expectation(field.type))
        return built

    def residency_word(self, node: Leaf, path: Path) -> Any:
        if node.text == "anywhere":
            return Residency(anywhere=True)
        return self.say(
            node,
            path,
            f"{shown(node.text)} stands here",
            "anywhere, or a mapping with allow and forbid",
            near_miss(node.text, ["anywhere"]),
        )

    def mapping(self, node: Node, kind: inspect.DictType, path: Path) -> Any:
        if not isinstance(node, Mapping):
            return self.say(node, path, f"{_article(node)} stands here", expectation(kind))
        built: dict[str, Any] = {}
        for key, child in node.entries.items():
            good = self.key(node, kind, key, path)
            value = self.value(child, kind.value_type, (*path, key))
            if good and value is not LEFT_OUT:
                built[key] = value
        return built

    def key(self, node: Mapping, kind: inspect.DictType, key: str, path: Path) -> bool:
        file, line = node.marks[key]
        before = len(self.problems)
        self.text(Leaf(file, line, key, key), kind.key_type, (*path, key))
        return len(self.problems) == before

    def sequence(self, node: Node, kind: inspect.VarTupleType, path: Path) -> Any:
        if not isinstance(node, Sequence):
            suggestion = f"[{node.text}]" if isinstance(node, Leaf) and node.text and len(node.text) <= 60 else ""
            return self.say(node, path, f"{_article(node)} stands here", expectation(kind), suggestion)
        built = (self.value(item, kind.item_type, (*path, index)) for index, item in enumerate(node.items))
        return tuple(value for value in built if value is not LEFT_OUT)

    def text(self, node: Leaf, kind: inspect.Type, path: Path) -> Any:
        if not isinstance(node.value, str):
            what = "nothing" if node.value is None else shown(node.text).strip('"')
            suggestion = "" if node.value is None else f"'{node.text}'"
            return self.say(node, path, f"{what} is not text here", expectation(kind), suggestion)
        if _CONTROL.search(node.value):
            return self.say(node, path, f"{shown(node.value)} holds control characters", expectation(kind))
        if isinstance(kind, inspect.StrType) and not _fits(node.value, kind):
            return self.say(
                node, path, f"{shown(node.value)} does not do", expectation(kind), _tidied(node.value, kind)
            )
        return node.value

    def literal(self, node: Leaf, kind: inspect.LiteralType, path: Path) -> Any:
        if node.value in kind.values and isinstance(node.value, str):
            return node.value
        words = [str(value) for value in kind.values]
        return self.say(node, path, f"{shown(node.text)} stands here", expectation(kind), near_miss(node.text, words))

    def boolean(self, node: Leaf, path: Path) -> Any:
        if isinstance(node.value, bool):
            return node.value
        suggestion = _BOOLEAN_WORDS.get(node.text.casefold(), near_miss(node.text, ["true", "false"]))
        return self.say(node, path, f"{shown(node.text)} stands here", "true or false", suggestion)

    def number(self, node: Leaf, kind: inspect.IntType | inspect.FloatType, path: Path) -> Any:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            found = resolve(node.text)  # quoted digits are a slip of the hand worth naming
            if isinstance(value, str) and isinstance(found, int | float) and not isinstance(found, bool):
                return self.say(node, path, f"{shown(node.text)} is in quotes", expectation(kind), node.text)
            return self.say(node, path, f"{_article(node)} stands here", expectation(kind))
        if not math.isfinite(value) or not _in_range(value, kind):
            return self.say(node, path, f"{shown(node.text).strip(chr(34))} is out of range", expectation(kind))
        if isinstance(kind, inspect.FloatType):
            return float(value)
        if isinstance(value, float):
            whole = str(int(value)) if value.is_integer() else ""
            return self.say(node, path, f"{node.text} is no whole number", expectation(kind), whole)
        return value


def expectation(kind: inspect.Type) -> str:
    """A type in an operator's words, ranges included."""
    match kind:
        case inspect.Metadata():
            return expectation(kind.type)
        case inspect.UnionType():
            return " or ".join(expectation(member) for member in kind.types)
        case inspect.NoneType():
            return "null"
        case inspect.LiteralType():
            return " or ".join(map(str, kind.values))
        case inspect.StrType():
            return _text_expected(kind)
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() | inspect.FloatType():
            return _number_expected(kind)
        case inspect.VarTupleType():
            return f"a list, each {expectation(kind.item_type)}"
        case inspect.DictType():
            return f"a mapping, each {expectation(kind.value_type)}"
        case inspect.StructType():
            return "a mapping"
    raise TypeError(f"policy types use {kind!r}, which has no words")


def _text_expected(kind: inspect.StrType) -> str:
    if kind.pattern is None:
        return "text" if not kind.min_length else "text that is not empty"
    lowercase = "A-Z" not in kind.pattern
    alphabet = "lowercase letters, digits and hyphens" if lowercase else "letters, digits and any of . _ / @ : + -"
    return f"a name of {alphabet}, at most {kind.max_length} characters"


def _number_expected(kind: inspect.IntType | inspect.FloatType) -> str:
    noun = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
    if kind.ge is not None and kind.le is not None:
        return f"{noun} from {kind.ge:,} to {kind.le:,}"
    low = f"at least {kind.ge:,}" if kind.ge is not None else f"above {kind.gt:,}" if kind.gt is not None else ""
    high = f"at most {kind.le:,}" if kind.le is not None else f"below {kind.lt:,}" if kind.lt is not None else ""
    return " ".join(filter(None, (noun, " and ".join(filter(None, (low, high))))))


def _fits(value: str, kind: inspect.StrType) -> bool:
    long_enough = len(value) >= (kind.min_length or 0)
    short_enough = kind.max_length is None or len(value) <= kind.max_length
    return long_enough and short_enough and (kind.pattern is None or re.fullmatch(kind.pattern, value) is not None)


def _tidied(value: str, kind: inspect.StrType) -> str:
    """The nearest name that would fit: lowercase, hyphens for whatever may not stand there."""
    lowercase = value.casefold() if kind.pattern and "A-Z" not in kind.pattern else value
    tidy = re.sub(r"[^A-Za-z0-9-]+", "-", lowercase).strip("-")
    return tidy if tidy != value and _fits(tidy, kind) else ""


def _in_range(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


def _kind_of(node: Node) -> str:
    return "mapping" if isinstance(node, Mapping) else "list" if isinstance(node, Sequence) else "value"


def _article(node: Node) -> str:
    if isinstance(node, Leaf):
        return "nothing" if node.value is None else shown(node.text)
    return f"a {_kind_of(node)}"


_INFO = inspect.type_info(Policy)
assert isinstance(_INFO, inspect.StructType)
_POLICY: inspect.StructType = _INFO
assert all(field.default is NODEFAULT or not field.required for field in _POLICY.fields)
