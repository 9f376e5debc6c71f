"""YAML as this project reads it."""

from __future__ import annotations

import pytest

from director.policy.tree import Leaf, Mapping, Sequence, Unreadable, read


def value(text: str) -> object:
    """The plain value of one file."""

    def plain(node: object) -> object:
        if isinstance(node, Mapping):
            return {key: plain(child) for key, child in node.entries.items()}
        if isinstance(node, Sequence):
            return [plain(child) for child in node.items]
        assert isinstance(node, Leaf)
        return node.value

    node, problems = read("p.yaml", text)
    assert problems == []
    return plain(node)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("on", "on"),
        ("2026-08-14", "2026-08-14"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("-1.5e3", -1500.0),
        (".5", 0.5),
        ("true", True),
        ("~", None),
        ("", None),
        ("'true'", "true"),
        ('"12"', "12"),
        ("|\n  a\n  b", "a\nb"),
        (".inf", float("inf")),
    ],
)
def test_scalars_follow_the_core_schema(written: str, meant: object) -> None:
    """Norway is no boolean and a version date no date."""
    assert value(f"key: {written}") == {"key": meant}


def test_keys_are_what_was_written() -> None:
    """A version or a country as a key stays text."""
    assert value("{NO: 1, 2026-08-14: 2, 1.10: 3, true: 4}") == {"NO": 1, "2026-08-14": 2, "1.10": 3, "true": 4}


def test_every_value_knows_its_line() -> None:
    """Keys, list items and nested values carry their own lines."""
    node, _ = read("p.yaml", "a:\n  b:\n    - 1\n    - 2\n\nc: 3\n")
    assert isinstance(node, Mapping)
    assert node.marks["c"] == ("p.yaml", 6)
    inner = node.entries["a"]
    assert isinstance(inner, Mapping)
    items = inner.entries["b"]
    assert isinstance(items, Sequence)
    assert [item.line for item in items.items] == [3, 4]


def test_anchors_repeat_a_value() -> None:
    """An alias stands for its anchor's value."""
    assert value("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


def test_a_key_given_twice_is_found_at_any_depth() -> None:
    """The second place is reported and names the first; the reading goes on."""
    node, problems = read("p.yaml", "a:\n  b: 1\n  c: 2\n  b: 3\nd: 4\nd: 5\n")
    assert [(problem.line, problem.path, problem.message) for problem in problems] == [
        (4, "a.b", "given twice; the first stands in line 2"),
        (6, "d", "given twice; the first stands in line 5"),
    ]
    assert isinstance(node, Mapping)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: [1", 2, "flow sequence"),
        ("a: 1\nb: *", 2, "a * outside quotes begins an alias"),
        ("a: *x", 1, "before any &x"),
        ("a: &x [*x]", 1, "before any &x"),
        ("a: !!int 3", 1, "a tag"),
        ("\na: !!python/object/apply:os.system [x]", 2, "a tag"),
        ("%YAML 1.1\n---\na: NO", 2, "directive"),
        ("%TAG ! tag:x,2000:\n---\na: 1", 2, "directive"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("a:\n  ? [1]\n  : 2", 2, "a key that is a list"),
        ("a: 1\nb: \x07", 2, "holds the character 0x7"),
        ("a:\n\t- b", 2, "not YAML"),
        ("[" * 10_000, 1, "nested more than 32 deep"),
        ("{a: " * 10_000, 1, "nested more than 32 deep"),
        ("- " * 10_000, 1, "nested more than 32 deep"),
    ],
)
def test_what_is_no_policy_file_names_its_line(text: str, line: int, words: str) -> None:
    """Broken syntax, tags, cycles, directives and abysses end the reading with a place."""
    with pytest.raises(Unreadable, match=r".*" + words.replace("*", r"\*")) as refusal:
        read("p.yaml", text)
    assert refusal.value.problem.line == line


def test_aliases_of_aliases_meet_a_bound() -> None:
    """A file of 400 bytes that stands for 10¹¹ values is refused before they exist."""
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{step}: &a{step} [{','.join([f'*a{step - 1}'] * 10)}]" for step in range(1, 12)]
    with pytest.raises(Unreadable, match="more than 500,000 values"):
        read("p.yaml", "\n".join(lines))


def test_a_file_has_a_greatest_size() -> None:
    """Size is checked before anything is parsed."""
    with pytest.raises(Unreadable, match="4,000,001 characters"):
        read("p.yaml", "#" * 4_000_001)
