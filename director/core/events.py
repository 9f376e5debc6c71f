"""What changed, with the figures that caused it."""

from __future__ import annotations

from msgspec import Struct


class Event(Struct, frozen=True):
    """One change of state. `why` is a sentence that an operator can act on."""

    kind: str
    at_ms: int
    why: str
    region: str | None = None
    model: str | None = None
    version: str | None = None
    before: str | None = None
    after: str | None = None
    who: str = "planner"
    request_id: str | None = None
    """Of the HTTP request that caused it."""
