"""Policy files → a validated policy, or every reason why not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from director.core.policy import Policy
from director.policy.draft import Draft
from director.policy.problem import PolicyInvalid, Problem, dotted, shown
from director.policy.rules import RULES
from director.policy.shape import Shape
from director.policy.tree import CHARACTERS_MAX, Leaf, Mapping, Node, Unreadable, read

if TYPE_CHECKING:
    from collections.abc import Mapping as Files
    from pathlib import Path

SUFFIXES = (".yaml", ".yml")
FILES_MAX = 256
PROBLEMS_MAX = 500
"""Beyond it the file is of another kind, and its rules are not worth the time."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.ya?ml")


class LoadedPolicy(Struct, frozen=True):
    """A policy that may be served. `files` are the texts it was made from, by name."""

    policy: Policy
    warnings: tuple[Problem, ...]
    files: dict[str, str]


def load(path: Path) -> LoadedPolicy:
    """The policy of a folder (its `*.yaml` and `*.yml`, not those below) or of one file. Raises `PolicyInvalid`."""
    found = _files_at(path)
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for entry in found:
        try:
            texts[entry.name] = _text(entry)
        except Unreadable as error:
            problems.append(error.problem)
    if problems:
        raise PolicyInvalid(problems)
    return _validated(texts, {entry.name: str(entry) for entry in found})


def _files_at(path: Path) -> list[Path]:
    """The policy files that a path stands for, sorted, at least one."""
    try:
        if not path.is_dir():
            path.stat()
            return [path]
        inside = sorted(path.iterdir())
    except OSError as error:
        words = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise PolicyInvalid([Problem(str(path), 0, "", words, "a policy folder or file")]) from error
    # A dangling link is kept, to be complained of: a file that silently drops out could open a region.
    found = [each for each in inside if each.suffix in SUFFIXES and not each.name.startswith(".") and not each.is_dir()]
    if not found:
        raise PolicyInvalid([Problem(str(path), 0, "", "holds no policy file", "*.yaml")])
    return found


def _text(path: Path) -> str:
    """A file's text. Raises `Unreadable`."""
    try:
        if not path.is_file():
            message = "is no regular file" if path.exists() else "leads nowhere"
            raise Unreadable(Problem(str(path), 0, "", message, "a file"))
        if path.stat().st_size > 4 * CHARACTERS_MAX:
            raise Unreadable(Problem(str(path), 0, "", "is too large", f"at most {CHARACTERS_MAX:,} characters"))
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        words = f"is not UTF-8 at byte {error.start}"
        raise Unreadable(Problem(str(path), 0, "", words, "UTF-8 text")) from error
    except OSError as error:
        raise Unreadable(Problem(str(path), 0, "", f"cannot be read: {error.strerror}")) from error


def load_files(files: Files[str, str]) -> LoadedPolicy:
    """The same from memory: names (`tenants.yaml`) and texts. Raises `PolicyInvalid`."""
    problems = [
        Problem(
            shown(name).strip('"'), 0, "", "is no name of a policy file", "letters, digits and . _ - ending in .yaml"
        )
        for name in files
        if not _FILE_NAME.fullmatch(name)
    ]
    if not files:
        problems = [Problem("", 0, "", "no policy file", "at least one")]
    if problems:
        raise PolicyInvalid(problems)
    return _validated(dict(files), {name: name for name in files})


def _validated(texts: dict[str, str], labels: dict[str, str]) -> LoadedPolicy:
    """`labels`: how each file is called in messages."""
    total = sum(map(len, texts.values()))
    if total > CHARACTERS_MAX or len(texts) > FILES_MAX:
        message = f"{total:,} characters in {len(texts)} files"
        raise PolicyInvalid([Problem("", 0, "", message, f"at most {CHARACTERS_MAX:,} in {FILES_MAX}")])
    problems: list[Problem] = []
    roots: list[Mapping] = []
    unreadable = False
    for name, text in sorted(texts.items()):
        try:
            node, slips = read(labels[name], text)
            problems.extend(slips)
            roots.extend(_root(node))
        except Unreadable as error:
            unreadable = True
            problems.append(error.problem)
    if unreadable:
        # What the unreadable file declares is unknown: to judge the others would only call its names missing.
        raise PolicyInvalid(problems)
    root = _merged(roots, problems, labels[min(texts)])
    shape = Shape()
    draft = Draft(shape.policy(root), root, shape.problems)
    problems.extend(shape.problems)
    if len(problems) > PROBLEMS_MAX:
        rest = f"{len(problems) - PROBLEMS_MAX:,} more problems"
        raise PolicyInvalid([*problems[:PROBLEMS_MAX], Problem("", 0, "", rest)])
    warnings: list[Problem] = []
    for check in RULES:
        for finding in check(draft):
            (warnings if finding.warning else problems).append(draft.problem(finding))
    if problems:
        raise PolicyInvalid(problems)
    in_order = sorted(warnings, key=lambda warning: (warning.file, warning.line, warning.path))
    return LoadedPolicy(draft.policy, tuple(in_order), texts)


def _root(node: Node | None) -> list[Mapping]:
    """A file's top level. An empty file (comments alone) adds nothing."""
    if node is None or (isinstance(node, Leaf) and node.value is None):
        return []
    if not isinstance(node, Mapping):
        raise Unreadable(Problem(node.file, node.line, "", "the top level is no mapping", "sections such as regions:"))
    return [node]


def _merged(roots: list[Mapping], problems: list[Problem], first_file: str) -> Mapping:
    """One tree from all files. A section in two files is joined where it is a mapping; nothing is ever overridden."""
    merged = Mapping(first_file, 1)
    for root in roots:
        for section, node in root.entries.items():
            known = merged.entries.get(section)
            if known is None:
                merged.entries[section] = _copied(node)
                merged.marks[section] = root.marks[section]
            elif isinstance(known, Mapping) and isinstance(node, Mapping):
                _join(known, node, section, problems)
            else:
                problems.append(_twice(root.marks[section], (section,), merged.marks[section]))
    return merged


def _join(known: Mapping, more: Mapping, section: str, problems: list[Problem]) -> None:
    for key, node in more.entries.items():
        if key in known.entries:
            problems.append(_twice(more.marks[key], (section, key), known.marks[key]))
        else:
            known.entries[key] = node
            known.marks[key] = more.marks[key]


def _copied(node: Node) -> Node:
    """A section's top level of its own: an anchor may give the same mapping to two sections."""
    if not isinstance(node, Mapping):
        return node
    copy = Mapping(node.file, node.line)
    copy.size = node.size
    copy.entries = dict(node.entries)
    copy.marks = dict(node.marks)
    return copy


def _twice(mark: tuple[str, int], path: tuple[str, ...], first: tuple[str, int]) -> Problem:
    return Problem(*mark, dotted(path), f"given twice; the first stands in {first[0]}:{first[1]}", "each key once")
