"""What a rule judges: the usable part of a policy, the tree it came from, and the names the files declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from director.policy.problem import Path, Problem, dotted
from director.policy.tree import Leaf, Mapping, Node, Sequence, place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from director.core.policy import Policy


class Finding(NamedTuple):
    """What a rule says of a path. A warning leaves the policy usable."""

    path: Path
    message: str
    expected: str = ""
    suggestion: str = ""
    warning: bool = False


class Draft:
    """`policy` lacks whatever was unusable; `names(section)` knows everything that was written."""

    def __init__(self, policy: Policy, root: Mapping, problems: Iterable[Problem] = ()) -> None:
        """`problems`: what is known to be wrong already, so that nobody complains of its consequences."""
        self.policy = policy
        self.root = root
        self._broken = [problem.path for problem in problems]

    def names(self, section: str) -> frozenset[str] | None:
        """Keys (or list items) of a top-level section, unusable ones included. None: the section itself is unusable."""
        node = self.root.entries.get(section)
        if isinstance(node, Mapping):
            return frozenset(node.entries)
        if isinstance(node, Sequence):
            return frozenset(item.text for item in node.items if isinstance(item, Leaf))
        return None

    def node(self, path: Path) -> Node | None:
        """What the files hold at `path`."""
        node: Node | None = self.root
        for part in path:
            if isinstance(node, Mapping) and isinstance(part, str):
                node = node.entries.get(part)
            elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
                node = node.items[part]
            else:
                return None
        return node

    def sound(self, path: Path) -> bool:
        """Whether everything at and below `path` could be used as it stands."""
        at = dotted(path)
        return not any(broken == at or broken.startswith((f"{at}.", f"{at}[")) for broken in self._broken)

    def given(self, path: Path) -> bool:
        """Whether the files say anything at `path`."""
        return self.node(path) is not None

    def indexed(self, path: Path, values: tuple[str, ...]) -> list[tuple[Path, str]]:
        """Each of a list's usable values with its own path. Items that were left out shift nothing."""
        node = self.node(path)
        if not isinstance(node, Sequence):
            return [(path, value) for value in values]
        left = list(values)
        found: list[tuple[Path, str]] = []
        for index, item in enumerate(node.items):
            if left and isinstance(item, Leaf) and item.text == left[0]:
                found.append(((*path, index), left.pop(0)))
        return found

    def problem(self, finding: Finding) -> Problem:
        file, line = place(self.root, finding.path)
        return Problem(file, line, dotted(finding.path), finding.message, finding.expected, finding.suggestion)
