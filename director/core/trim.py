"""The trim: a slow integral that mends what feed-forward gets wrong. Moves only while capacity is what limits.

While a deployment is filled beyond its home target on purpose (overload), utilisation says nothing about the estimate:
the trim waits.
"""

from __future__ import annotations

from math import exp
from typing import Literal

Mode = Literal["limits", "waits", "relaxes"]

TRIM_MIN, TRIM_MAX = 0.5, 1.2
INTEGRAL_S = 60.0
"""Slow against a request's life and a report's age together, or it would ring."""
RELAX_S = 120.0
TRIM_STEP = 0.02
"""Smaller changes are not published."""


def move(
    trim: float, published: float, mode: Mode, utilisation: float | None, home_target: float, dt_s: float
) -> tuple[float, float]:
    """The next trim and the published one. `utilisation` None: not measured."""
    if mode == "relaxes":
        trim = 1.0 + (trim - 1.0) * exp(-dt_s / RELAX_S)
    elif mode == "limits" and utilisation is not None:
        trim += (home_target - utilisation) * dt_s / INTEGRAL_S
    trim = min(TRIM_MAX, max(TRIM_MIN, trim))
    if abs(trim - published) >= TRIM_STEP or (published != 1.0 and abs(trim - 1.0) < TRIM_STEP / 4):
        published = round(trim, 3) if abs(trim - 1.0) >= TRIM_STEP / 4 else 1.0
    return trim, published
