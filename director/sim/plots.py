"""Line charts as inline SVG: no script, no font, nothing to fetch."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, HEIGHT = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 26, 34
POINTS_MAX = 300
# Told apart by colour-blind readers as well (Okabe and Ito), and dark enough on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#444444", "#8b2fc9")


_DIVISIONS = {1.0: 5, 1.2: 4, 1.5: 3, 2.0: 4, 2.5: 5, 3.0: 3, 4.0: 4, 5.0: 5, 6.0: 3, 8.0: 4}
"""First digits at which an axis may end, and into how many round steps it is divided then."""


class Line(NamedTuple):
    name: str
    values: Sequence[float]
    """One for each second."""


class Span(NamedTuple):
    """A shaded stretch of time: a fault."""

    from_s: float
    until_s: float
    label: str


def chart(
    title: str,
    lines: Sequence[Line],
    seconds: int,
    *,
    unit: str = "",
    spans: Sequence[Span] = (),
    limit: float = 0.0,
    top_min: float = 0.0,
    top_max: float | None = None,
) -> str:
    """One chart from 0 to `seconds`; the y axis begins at 0 and ends at a round number.

    `limit` above 0 is drawn as a dashed line. The axis reaches `top_min` at least. Nothing is drawn above `top_max`;
    where something was, the unit says so.
    """
    highest = max((max(line.values, default=0.0) for line in lines), default=0.0)
    top = _round_up(max(highest, limit, top_min))
    if top_max is not None and highest > top_max:
        top, unit = top_max, f"{unit}, up to {_short(highest)}"
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">',
        f'<text class="title" x="{LEFT}" y="14">{escape(title)}</text>',
        *(_shade(span, seconds, i) for i, span in enumerate(spans)),
        *_y_axis(top, unit),
        *_x_axis(seconds),
    ]
    if limit:
        y = f"{_y(limit, top):.1f}"
        parts.append(f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
    for i, line in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.4" points="{_points(line.values, seconds, top)}">'
            f"<title>{escape(line.name)}</title></polyline>"
        )
    names = "".join(
        f'<tspan fill="{COLOURS[i % len(COLOURS)]}">■ {escape(line.name)}  </tspan>' for i, line in enumerate(lines)
    )
    parts.append(f'<text class="tick" x="{LEFT}" y="{HEIGHT - 4}" xml:space="preserve">{names}</text></svg>')
    return "".join(parts)


def _x(at_s: float, seconds: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at_s / max(1, seconds)


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - min(1.0, max(0.0, value / top)))


def _points(values: Sequence[float], seconds: int, top: float) -> str:
    """At most `POINTS_MAX` points; a bucket of several seconds is drawn by its extremes, so that no peak is lost."""
    bucket = max(1, ceil(2 * len(values) / POINTS_MAX))
    out = []
    for start in range(0, len(values), bucket):
        group = values[start : start + bucket]
        ends = (group[0],) if bucket == 1 else (min(group), max(group))
        for k, value in enumerate(ends):
            at_s = start + (k + 0.5) * len(group) / len(ends)
            out.append(f"{_x(at_s, seconds):.1f},{_y(value, top):.1f}")
    return " ".join(out)


def _y_axis(top: float, unit: str) -> list[str]:
    out, steps = [], _DIVISIONS.get(round(top / 10.0 ** floor(log10(top)), 6), 4)
    for i in range(steps + 1):
        value = top * i / steps
        y = _y(value, top)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text class="tick" x="{LEFT - 5}" y="{y + 3:.1f}" text-anchor="end">{_short(value)}</text>')
    out.append(f'<text class="tick" x="{WIDTH - RIGHT}" y="14" text-anchor="end">{escape(unit)}</text>')
    return out


def _x_axis(seconds: int) -> list[str]:
    step = _round_up(seconds / 6)
    out, at_s = [], 0.0
    while at_s <= seconds:
        text = f"{at_s / 3600:g} h" if seconds > 7200 else f"{at_s:g} s"
        where = f'x="{_x(at_s, seconds):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle"'
        out.append(f'<text class="tick" {where}>{text}</text>')
        at_s += step if seconds <= 7200 else max(3600.0, round(step / 3600) * 3600.0)
    return out


def _shade(span: Span, seconds: int, line: int) -> str:
    """Named at its foot, each a line above the one before; a late one's name ends where the plot does."""
    left, right = _x(span.from_s, seconds), _x(min(span.until_s, seconds), seconds)
    is_late = left > LEFT + (WIDTH - LEFT - RIGHT) / 2
    where = f'x="{WIDTH - RIGHT - 3}" text-anchor="end"' if is_late else f'x="{left + 3:.1f}"'
    return (
        f'<rect class="fault" x="{left:.1f}" y="{TOP}" width="{max(0.0, right - left):.1f}" '
        f'height="{HEIGHT - TOP - BOTTOM}"><title>{escape(span.label)}</title></rect>'
        f'<text class="tick" {where} y="{HEIGHT - BOTTOM - 6 - 10 * line}">{escape(span.label)}</text>'
    )


def _round_up(value: float) -> float:
    """The next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 × 10ⁿ; 1 for nothing."""
    if value <= 0.0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    for digit in _DIVISIONS:
        if value <= digit * power * (1.0 + 1e-9):
            return digit * power
    return 10.0 * power


def _short(value: float) -> str:
    for limit, suffix in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"
