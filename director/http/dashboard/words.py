"""Figures as people read them: three figures, a unit, and a dash for what is unknown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NOTHING = "–"
"""Unknown. Never 0: a region that says nothing of its errors has not none."""


def tokens(value: float | None) -> str:
    """Tokens/s: 940, 182 k, 1.25 M."""
    if value is None:
        return NOTHING
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        # Half a unit early: 999.7 k reads 1.00 M, not 1e+03 k.
        if abs(value) >= limit * 0.9995:
            scaled = value / limit
            return f"{scaled:.{2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0}f}{unit}"
    return f"{value:.0f}"


def percent(value: float | None, places: int = 0) -> str:
    """A ratio; what is not quite nothing or everything does not read as such."""
    if value is None:
        return NOTHING
    text = f"{value * 100:.{places}f}"
    if value > 0 and float(text) == 0:
        return f"< {10**-places:g} %"
    if value < 1 and float(text) == 100:
        return f"> {100 - 10**-places:g} %"
    return f"{text} %"


def points(value: float) -> str:
    """A difference of two shares, with its sign, in percentage points."""
    rounded = round(value * 100, 1)
    return "±0" if rounded == 0 else f"{rounded:+.1f}".replace("-", "−")


def ms(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value / 1000:.1f} s" if value >= 2_000 else f"{value:.0f} ms"


def age(value_ms: float | None) -> str:
    """How long ago, coarsely."""
    if value_ms is None:
        return NOTHING
    s = value_ms / 1000
    if s < 90:
        return f"{s:.0f} s"
    if s < 5_400:
        return f"{s / 60:.0f} min"
    return f"{s / 3600:.0f} h" if s < 48 * 3600 else f"{s / 86_400:.0f} d"


def clock(at_ms: int | None) -> str:
    """Hours, minutes, seconds; UTC as everywhere."""
    return NOTHING if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")


def moment(at_ms: int | None) -> str:
    """Date and time, UTC."""
    return NOTHING if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def rfc3339(at_ms: int) -> str:
    """For `datetime` attributes and addresses."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}".replace(",", "\u202f")


def plural(value: int, one: str, many: str | None = None) -> str:
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def spaced(value: str) -> str:
    """A code as words: `half_open` reads half open."""
    return value.replace("_", " ")


FILTERS: dict[str, Any] = {
    "tokens": tokens,
    "percent": percent,
    "points": points,
    "ms": ms,
    "age": age,
    "clock": clock,
    "moment": moment,
    "rfc3339": rfc3339,
    "count": count,
    "plural": plural,
    "spaced": spaced,
}
