"""A policy file as a tree of marked values: what stands where, before anything is said about what ought to stand there.

Built from parse events, not by a YAML loader, so that the reading is exactly YAML 1.2's core schema (`NO` is text, a
date is text), every value knows its line, a key given twice is found, and hostile input (nesting, aliases of aliases,
size) meets a bound and not the machine's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from director.policy.problem import Path, Problem, dotted, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

CHARACTERS_MAX = 4_000_000
"""Of all files together: 10,000 client networks take 250,000."""
DEPTH_MAX = 32
"""The deepest setting stands at 7."""
NODES_MAX = 500_000

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]{1,30}|0o[0-7]{1,30}|0x[0-9a-fA-F]{1,30}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

Scalar = str | int | float | bool | None


class Unreadable(Exception):
    """The text is no policy file at all; nothing after this place is known."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class Node:
    """A value and where it stands. `size` counts the nodes below it, aliases included."""

    __slots__ = ("file", "line", "size", "text")

    def __init__(self, file: str, line: int, text: str = "") -> None:
        self.file = file
        self.line = line
        self.size = 1
        self.text = text


class Leaf(Node):
    """A scalar, resolved; `text` is what was written."""

    __slots__ = ("value",)

    def __init__(self, file: str, line: int, text: str, value: Scalar) -> None:
        super().__init__(file, line, text)
        self.value = value


class Sequence(Node):
    __slots__ = ("items",)

    def __init__(self, file: str, line: int) -> None:
        super().__init__(file, line)
        self.items: list[Node] = []


class Mapping(Node):
    """Keys as they were written. `marks` holds the place of each key."""

    __slots__ = ("entries", "marks")

    def __init__(self, file: str, line: int) -> None:
        super().__init__(file, line)
        self.entries: dict[str, Node] = {}
        self.marks: dict[str, tuple[str, int]] = {}


def resolve(text: str) -> Scalar:
    """A plain scalar by the YAML 1.2 core schema."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if match := _NOT_FINITE.fullmatch(text):
        return float("nan") if match[1] is None else float(f"{match[1]}inf")
    return text


class _Reader:
    """Events of one file → nodes. Problems that leave the tree usable are collected; others end the reading."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.anchors: dict[str, Node] = {}
        self.path: list[str | int] = []
        self.events: Iterator[Any] = YAML(typ="safe", pure=True).parse(text)

    def fail(self, line: int, message: str, expected: str = "") -> Unreadable:
        return Unreadable(Problem(self.file, line, dotted(tuple(self.path)), message, expected))

    def document(self) -> Node | None:
        """The one document, or None where the file is empty."""
        root: Node | None = None
        for event in self.events:
            kind = type(event).__name__
            line = event.start_mark.line + 1
            if kind == "DocumentStartEvent":
                if root is not None:
                    raise self.fail(line, "a second document in one file", "one document")
                if event.tags or (event.version and tuple(event.version) != (1, 2)):
                    raise self.fail(line, "a %TAG or %YAML directive", "YAML 1.2 without directives")
                root = self.node(next(self.events))
        return root

    def node(self, event: Any) -> Node:
        line = event.start_mark.line + 1
        kind = type(event).__name__
        if len(self.path) > DEPTH_MAX:
            raise self.fail(line, f"nested more than {DEPTH_MAX} deep")
        if kind == "AliasEvent":
            return self.alias(str(event.anchor), line)
        if getattr(event, "tag", None) is not None:
            raise self.fail(line, f"a tag: {shown(str(event.tag))}", "plain values")
        node: Node
        if kind == "ScalarEvent":
            plain = bool(event.implicit[0])
            node = Leaf(self.file, line, event.value, resolve(event.value) if plain else event.value)
        elif kind == "SequenceStartEvent":
            node = self.sequence(line)
        else:
            node = self.mapping(line)
        if event.anchor is not None:
            self.anchors[str(event.anchor)] = node
        return node

    def alias(self, anchor: str, line: int) -> Node:
        """The very node that the anchor names. An anchor is known once its node is complete: no cycles."""
        if anchor not in self.anchors:
            raise self.fail(
                line, f"*{anchor} stands before any &{anchor}", "an anchor defined above, or quotes around it"
            )
        return self.anchors[anchor]

    def grow(self, parent: Node, child: Node) -> None:
        parent.size += child.size
        if parent.size > NODES_MAX:
            raise self.fail(parent.line, f"more than {NODES_MAX:,} values")

    def sequence(self, line: int) -> Sequence:
        node = Sequence(self.file, line)
        while type(event := next(self.events)).__name__ != "SequenceEndEvent":
            self.path.append(len(node.items))
            node.items.append(child := self.node(event))
            self.path.pop()
            self.grow(node, child)
        return node

    def mapping(self, line: int) -> Mapping:
        node = Mapping(self.file, line)
        while type(event := next(self.events)).__name__ != "MappingEndEvent":
            key_line = event.start_mark.line + 1
            key_node = self.node(event)
            if not isinstance(key_node, Leaf):
                raise self.fail(key_line, "a key that is a list or a mapping", "a name")
            key = key_node.text
            self.path.append(key)
            child = self.node(next(self.events))
            if key in node.entries:
                first = node.marks[key][1]
                message = f"given twice; the first stands in line {first}"
                self.problems.append(Problem(self.file, key_line, dotted(tuple(self.path)), message, "each key once"))
            else:
                node.entries[key] = child
                node.marks[key] = (self.file, key_line)
            self.path.pop()
            self.grow(node, child)
        return node


def read(file: str, text: str) -> tuple[Node | None, list[Problem]]:
    """One file's tree and what is wrong with its form. Raises `Unreadable` where no tree can be had."""
    if len(text) > CHARACTERS_MAX:
        raise Unreadable(Problem(file, 0, "", f"{len(text):,} characters", f"at most {CHARACTERS_MAX:,}"))
    reader = _Reader(file, text)
    try:
        return reader.document(), reader.problems
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        if error.context == "while scanning an alias":
            raise Unreadable(Problem(file, line, "", "a * outside quotes begins an alias", 'quotes: "*"')) from error
        words = ", ".join(part for part in (error.context, error.problem) if part)
        raise Unreadable(Problem(file, line, "", f"not YAML: {' '.join(words.split())}")) from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Unreadable(
            Problem(file, line, "", f"holds the character {error.character:#x}", "printable text")
        ) from error
    except (YAMLError, ValueError) as error:
        raise Unreadable(Problem(file, 0, "", f"not YAML: {' '.join(str(error).split())[:160]}")) from error


def place(root: Node, path: Path) -> tuple[str, int]:
    """File and line of a path: of its last key where it exists, else of the nearest thing above it."""
    node, mark = root, (root.file, root.line)
    for part in path:
        if isinstance(node, Mapping) and isinstance(part, str) and part in node.entries:
            mark = node.marks[part]
            node = node.entries[part]
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            mark = (node.file, node.line)
        else:
            break
    return mark
