"""Bearer tokens as a serving process knows them: hashes only, looked up without a database.

A token is checked once by its SHA-256 and then remembered by its bytes, because every request carries one. The memory
is bounded; wrong tokens are not remembered, so that guessing cannot push good ones out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import NamedTuple

from msgspec import Struct

from director.store.tokens import TokenRecord

REMEMBERED_MAX = 10_000


class Grant(Struct, frozen=True):
    """What one token allows. Scopes: decide, decide:TENANT, report:REGION, read, operate."""

    name: str
    scopes: frozenset[str]
    trusted_headers: bool = False
    """Whoever holds it sets X-Director-… headers itself, and strips its clients' own."""

    def allows(self, scope: str) -> bool:
        """Whether the scope is held: as it stands, or unbound (`decide` holds every `decide:TENANT`)."""
        return scope in self.scopes or scope.partition(":")[0] in self.scopes

    def allows_some(self, kind: str) -> bool:
        """Whether the scope is held for at least one tenant or region: enough to be let in and then told no."""
        return any(scope.partition(":")[0] == kind for scope in self.scopes)


class _Entry(NamedTuple):
    grant: Grant
    expires_at_ms: int | None


class TokenTable:
    """Token bytes → grant. Immutable but for the memory of tokens already checked."""

    def __init__(self, records: Iterable[TokenRecord] = (), now_ms: Callable[[], int] = lambda: 0) -> None:
        self.records = tuple(records)
        self._now_ms = now_ms
        self._by_hash = {
            record.hash: _Entry(
                Grant(name=record.name, scopes=frozenset(record.scopes), trusted_headers=record.trusted_headers),
                record.expires_at_ms,
            )
            for record in self.records
        }
        self._checked: dict[bytes, _Entry] = {}

    def lookup(self, token: bytes) -> Grant | None:
        """The grant of a token as it came in the Authorization header (without "Bearer "), or None."""
        entry = self._checked.get(token)
        if entry is None:
            entry = self._by_hash.get(sha256(token).hexdigest())
            if entry is None:
                return None
            if len(self._checked) >= REMEMBERED_MAX:
                self._checked.clear()
            self._checked[token] = entry
        if entry.expires_at_ms is not None and entry.expires_at_ms <= self._now_ms():
            return None
        return entry.grant

    def __len__(self) -> int:
        return len(self._by_hash)
