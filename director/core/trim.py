"""The trim: a slow integral that mends what feed-forward gets wrong. Moves only while capacity is what limits.

While a deployment is filled beyond its home target on purpose (relief, overload), that it is full says nothing about
the estimate, and the trim waits; that it is not full even so says that a trim below 1 fell too far: it rises. And
a deployment that has just begun to shed is not full yet: utilisation follows only as requests end, so the trim rises no
sooner than `LIVES` request lives after that. It falls at once.
"""

from __future__ import annotations

from math import exp
from typing import Literal

Mode = Literal["limits", "waits", "relaxes"]

TRIM_MIN, TRIM_MAX = 0.5, 1.2
INTEGRAL_S = 60.0
"""Slow against a request's life and a report's age together, or it would ring."""
SHARED_SLOWER = 4.0
"""Where answers are shared (DNS, an L7 that reuses them) what the trim does is seen a TTL later."""
RELAX_S = 120.0
LIVES = 2.0
SEEN_LATE_S = 10.0
"""A report and its interval."""
TRIM_STEP = 0.02
"""Smaller changes are not published."""


def move(
    trim: float,
    published: float,
    mode: Mode,
    utilisation: float | None,
    home_target: float,
    dt_s: float,
    *,
    may_rise: bool = True,
    shared: bool = False,
) -> tuple[float, float]:
    """The next trim and the published one. `utilisation` None: not measured. `shared`: many requests follow each
    decision.
    """
    if mode == "relaxes":
        if trim == published == 1.0:
            return trim, published
        trim = 1.0 + (trim - 1.0) * exp(-dt_s / RELAX_S)
    elif mode == "limits" and utilisation is not None:
        error = home_target - utilisation
        trim += (error if may_rise else min(0.0, error)) * dt_s / (INTEGRAL_S * (SHARED_SLOWER if shared else 1.0))
    trim = min(TRIM_MAX, max(TRIM_MIN, trim))
    if abs(trim - published) >= TRIM_STEP or (published != 1.0 and abs(trim - 1.0) < TRIM_STEP / 4):
        published = round(trim, 3) if abs(trim - 1.0) >= TRIM_STEP / 4 else 1.0
    return trim, published


def full_by_now(life_s: float, limited_s: float) -> bool:
    """Whether a deployment that has been limited for so long has filled."""
    return limited_s >= LIVES * life_s + SEEN_LATE_S
