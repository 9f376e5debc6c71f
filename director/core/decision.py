"""What is answered: a decision or a refusal. Both are values with reasons."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Reason = Literal["home", "overflow", "overloaded", "affinity"]

Code = Literal[
    "residency",
    "tenant_denied",
    "model_unavailable",
    "version_unavailable",
    "adapter_unavailable",
    "too_far",
    "admin_down",
    "excluded",
    "draining",
    "lost",
    "no_ready_replicas",
    "unhealthy",
    "breaker_open",
]


class Rejection(Struct, frozen=True):
    """Why a filter dropped a candidate. Permanent: cannot change for this request."""

    filter: str
    code: Code
    permanent: bool
    detail: str = ""


class RejectedCandidate(Struct, frozen=True):
    region: str
    model: str
    version: str | None
    """None where the region serves no version of the model."""
    rejection: Rejection


class Target(Struct, frozen=True):
    region: str
    endpoint: str
    model: str
    version: str


class Decision(Struct, frozen=True, eq=False):
    """One answer. Compared by identity: routes cache their decisions, and transports their bytes for them."""

    target: Target
    reason: Reason
    fallbacks: tuple[Target, ...]
    shares: dict[str, float]
    """region → share of the route's traffic."""
    affinity_token: str
    affinity_expires_in_s: float
    affinity_seen: Literal["none", "honoured", "released", "rejected", "expired", "forged", "foreign"] = "none"


RefusalCode = Literal["no_region", "tenant_unknown", "model_unknown"]


class Refusal(Struct, frozen=True):
    code: RefusalCode
    rejected: tuple[RejectedCandidate, ...] = ()
    retry_after_s: int | None = None
    overloaded: bool = False
    """Candidates are fine and full: the refused part of an overload."""
