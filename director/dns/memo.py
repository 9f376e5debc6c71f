"""A bounded dictionary for things that strangers can ask for: a flood of new keys evicts the rare, not the hot."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Two generations. New and re-used entries are young; when the young are too many they become the old, and what
    was old and not asked for since is forgotten. At most 2 × `entries_max` entries live.

    `young` may be read directly by a hot path; a miss there goes through `get`.
    """

    __slots__ = ("_entries_max", "old", "young")

    def __init__(self, entries_max: int) -> None:
        self._entries_max = entries_max
        self.young: dict[K, V] = {}
        self.old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        found = self.young.get(key)
        if found is None and (found := self.old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self.young) >= self._entries_max:
            # The young dictionary keeps its identity, so that a hot path may hold on to it.
            self.old = self.young.copy()
            self.young.clear()
        self.young[key] = value

    def clear(self) -> None:
        self.young.clear()
        self.old = {}
