from __future__ import annotations

from hashlib import sha256

import pytest

from director.replica import tokens
from director.replica.tokens import Grant, TokenTable
from director.store.tokens import TokenRecord


def record(token: bytes, *scopes: str, expires_at_ms: int | None = None) -> TokenRecord:
    return TokenRecord(hash=sha256(token).hexdigest(), name=token.decode(), scopes=scopes, expires_at_ms=expires_at_ms)


def test_a_known_token_is_granted_its_scopes() -> None:
    """By its hash the first time, from memory the second: the same grant."""
    table = TokenTable([record(b"edge", "decide")])
    first, second = table.lookup(b"edge"), table.lookup(b"edge")
    assert first == second == Grant("edge", frozenset({"decide"}))


def test_an_unknown_token_is_nobody() -> None:
    """Neither a wrong token nor a stored hash presented as a token opens anything."""
    table = TokenTable([record(b"edge", "decide")])
    assert table.lookup(b"edgy") is None
    assert table.lookup(sha256(b"edge").hexdigest().encode()) is None
    assert table.lookup(b"") is None


def test_a_token_ends_when_it_expires_even_if_it_was_seen_before() -> None:
    """The memory of checked tokens does not outlive a token, and needs no database to know."""
    now_ms = 1_000
    table = TokenTable([record(b"edge", "decide", expires_at_ms=2_000)], lambda: now_ms)
    assert table.lookup(b"edge") is not None
    now_ms = 2_000
    assert table.lookup(b"edge") is None


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More tokens than are remembered are still all known."""
    monkeypatch.setattr(tokens, "REMEMBERED_MAX", 2)
    names = [b"a", b"b", b"c", b"d"]
    table = TokenTable([record(name, "read") for name in names])
    for _ in range(2):
        assert all(table.lookup(name) is not None for name in names)


@pytest.mark.parametrize(
    ("held", "asked", "allowed"),
    [
        ("decide", "decide", True),
        ("decide", "decide:acme", True),
        ("decide:acme", "decide:acme", True),
        ("decide:acme", "decide:open", False),
        ("decide:acme", "decide", False),
        ("report:eu-west-1", "report:eu-west-1", True),
        ("report:eu-west-1", "report:eu-west-10", False),
        ("read", "operate", False),
        ("operate", "read", False),
    ],
)
def test_scopes_are_bound_to_tenant_and_region(held: str, asked: str, allowed: bool) -> None:
    """A scope holds what it says, and a bound one nothing beyond its tenant or region."""
    assert Grant("t", frozenset({held})).allows(asked) is allowed
