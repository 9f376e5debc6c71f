"""The grain of published figures: what is finer says nothing, and would make a plan longer and change it more often."""

from __future__ import annotations

from math import floor


def grained(value: float, per_unit: int) -> float:
    """The nearest of `per_unit` steps a unit, upwards where two are as near. A quarter of what `round` costs."""
    return floor(value * per_unit + 0.5) / per_unit
