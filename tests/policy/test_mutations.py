"""Whatever is done to a policy's text, the answer is a policy or its problems, each where the slip was made."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from director.core.policy import Policy, Residency
from director.policy import PolicyInvalid, Problem, load, load_files
from director.policy.problem import Path, dotted
from director.policy.tree import Leaf, Mapping, Node, Sequence, read
from tests.policy.samples import EXAMPLE, SAMPLE

MARK = "a value that stands nowhere else"


def plain(node: Node | None) -> Any:
    if isinstance(node, Mapping):
        return {key: plain(child) for key, child in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain(child) for child in node.items]
    assert isinstance(node, Leaf)
    return node.value


def example() -> dict[str, Any]:
    """The shipped example as plain values."""
    merged: dict[str, Any] = {}
    for text in load(EXAMPLE).files.values():
        merged |= plain(read("", text)[0])
    return merged


def paths(value: Any, kind: inspect.Type, at: Path = ()) -> list[tuple[Path, inspect.Type, bool]]:
    """Every place: its path, its type, and whether its key is a setting (and not a name that an operator chose)."""
    if isinstance(kind, inspect.Metadata):
        return paths(value, kind.type, at)
    if isinstance(kind, inspect.UnionType):
        (kind,) = (member for member in kind.types if not isinstance(member, inspect.NoneType))
        return paths(value, kind, at) if value is not None else []
    inside: list[tuple[Path, inspect.Type, bool]] = []
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        for field in kind.fields:
            if field.name in value:
                inner = paths(value[field.name], field.type, (*at, field.name))
                inside += [(path, type_, setting or path == (*at, field.name)) for path, type_, setting in inner]
    elif isinstance(kind, inspect.DictType):
        for key, child in value.items():
            inside += paths(child, kind.value_type, (*at, key))
    elif isinstance(kind, inspect.VarTupleType):
        for index, child in enumerate(value):
            inside += paths(child, kind.item_type, (*at, index))
    return [*inside, (at, kind, False)] if at else inside


PLAIN = example()
PLACES = paths(PLAIN, inspect.type_info(Policy))
SETTINGS = [path for path, _, setting in PLACES if setting]
WRONG: dict[type, list[Any]] = {
    inspect.FloatType: ["near", None, True, [], {}, "7", float("inf")],
    inspect.IntType: ["few", None, False, [], {}, 1.5, 10**40],
    inspect.StrType: [7, 1.5, None, True, [], {}, "a\nb"],
    inspect.BoolType: ["yes", 1, None, []],
    inspect.LiteralType: ["never", 0, None, []],
    inspect.VarTupleType: [3, "x", None, {}],
    inspect.DictType: [3, "x", None, []],
    inspect.StructType: [3, "x", None, []],
}


def at(root: Any, path: Path) -> Any:
    for part in path:
        root = root[part]
    return root


def written(root: Any) -> str:
    """JSON is YAML; one value on each line makes places comparable."""
    return json.dumps(root, indent=1).replace("Infinity", ".inf")


def found(text: str) -> tuple[Problem, ...]:
    """The problems of a text, none if it loads. Anything but PolicyInvalid fails the test."""
    try:
        load_files({"p.yaml": text})
    except PolicyInvalid as error:
        return error.problems
    return ()


def places(text: str) -> set[tuple[str, int]]:
    return {(problem.path, problem.line) for problem in found(text)}


def test_the_example_written_as_json_is_the_example() -> None:
    """So that what follows is about the mutation and not about the notation."""
    assert load_files({"p.yaml": written(PLAIN)}).policy == load(EXAMPLE).policy
    assert len(SETTINGS) > 80


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SETTINGS), st.data())
def test_a_misspelt_setting_is_found_where_it_stands(path: Path, data: st.DataObject) -> None:
    """Invariant: a typo in any setting's key is refused at its own path and line."""
    key = str(path[-1])
    position = data.draw(st.integers(0, len(key) - 1))
    typo = key[:position] + data.draw(st.sampled_from("xqZ_")) + key[position:]
    mutated = copy.deepcopy(PLAIN)
    parent = at(mutated, path[:-1])
    parent[typo] = parent.pop(key)
    text = written(mutated)
    line = next(number for number, row in enumerate(text.split("\n"), 1) if f'"{typo}"' in row)
    assert (dotted((*path[:-1], typo)), line) in places(text)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PLACES), st.data())
def test_a_value_of_the_wrong_type_is_found_where_it_stands(
    place: tuple[Path, inspect.Type, bool], data: st.DataObject
) -> None:
    """Invariant: a value of another type is refused at its own path and line, wherever it is put."""
    path, kind, _ = place
    wrong = data.draw(st.sampled_from(WRONG[type(kind)]))
    optional = path[-1] in {"geoip", "default_tenant", "max_rtt_ms", "hostmaster", "version", "objective", "location"}
    if wrong is None and optional:
        return
    if isinstance(kind, inspect.StructType) and kind.cls is Residency and wrong == "x":
        wrong = "everywhere"
    mutated = copy.deepcopy(PLAIN)
    at(mutated, path[:-1])[path[-1]] = MARK
    text = written(mutated)
    line = text[: text.index(MARK)].count("\n") + 1
    text = text.replace(json.dumps(MARK), json.dumps(wrong).replace("Infinity", ".inf"))
    assert (dotted(path), line) in places(text)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_policy_or_problems(text: str) -> None:
    """Invariant: no text raises anything but PolicyInvalid."""
    found(text)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(SAMPLE)), st.integers(0, 30), st.text(alphabet="{}[]:,&*!|>'\"%@#\n\t -ab0é", max_size=6))
def test_any_slip_of_the_hand_is_a_policy_or_problems(start: int, length: int, typed: str) -> None:
    """Invariant: a policy with any stretch overwritten loads or is refused, and every problem can be printed."""
    text = SAMPLE[:start] + typed + SAMPLE[start + length :]
    problems = found(text)
    assert all(problem.line > 0 for problem in problems)
    assert all("\n" not in str(problem) for problem in problems)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([path for path, _, _ in PLACES]), TREES)
def test_any_value_anywhere_is_a_policy_or_problems(path: Path, value: Any) -> None:
    """Invariant: whatever shape stands at whatever place, nothing but PolicyInvalid is raised."""
    mutated = copy.deepcopy(PLAIN)
    at(mutated, path[:-1])[path[-1]] = value
    found(json.dumps(mutated).replace("NaN", ".nan").replace("Infinity", ".inf"))
