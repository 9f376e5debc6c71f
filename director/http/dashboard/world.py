"""The world map: each region where it stands, its disc as large as its capacity, filled as far as it is used."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from msgspec import Struct

from director.http.dashboard.regions import RegionRow, State

WIDTH, HEIGHT = 720.0, 317.0
RADIUS_MAX, RADIUS_MIN = 15.0, 3.0
LABELLED_MAX = 16
"""More names than this cover the land; the discs still say them when pointed at."""
CHAR_WIDTH = 6.6
LINE = 12.0
NAME_MAX = 24


class Marker(Struct, frozen=True):
    """A region on the map. The ring between the two radii is its headroom: areas are tokens/s."""

    region: str
    state: State
    x: float
    y: float
    radius: float
    used_radius: float
    label: str
    label_x: float
    label_y: float
    anchor: str
    title: str


def graticule() -> str:
    """Meridians and parallels each 30°, as one path."""
    lines = [f"M{x:g} 0V{HEIGHT:g}" for x in range(60, 720, 60)]
    lines += [f"M0 {_y(lat):g}H{WIDTH:g}" for lat in (60, 30, 0, -30)]
    return "".join(lines)


def markers(rows: Sequence[RegionRow]) -> list[Marker]:
    """Those with a location, largest first, so that small ones stay on top."""
    greatest = max((row.capacity for row in rows), default=0.0)
    placed = [row for row in rows if row.policy.location is not None]
    placed.sort(key=lambda row: (-row.capacity, row.region))
    labelled = len(placed) <= LABELLED_MAX
    # The more there are the smaller each is, so that together they cover the same part of the map.
    largest = RADIUS_MAX * min(1.0, sqrt(LABELLED_MAX / max(1, len(placed))))
    radii = [max(RADIUS_MIN, largest * sqrt(row.capacity / greatest)) if greatest > 0 else RADIUS_MIN for row in placed]
    boxes: list[tuple[float, float, float, float]] = []
    for row, radius in zip(placed, radii, strict=True):
        x, y = _place(row)
        boxes.append((x - radius, y - radius, x + radius, y + radius))
    return [_marker(row, radius, boxes, labelled) for row, radius in zip(placed, radii, strict=True)]


def _marker(row: RegionRow, radius: float, boxes: list[tuple[float, float, float, float]], labelled: bool) -> Marker:
    x, y = _place(row)
    used = 0.0 if row.utilisation is None else radius * sqrt(min(1.0, max(0.0, row.utilisation)))
    label = row.region if len(row.region) <= NAME_MAX else row.region[: NAME_MAX - 1] + "…"
    label_x, label_y, anchor = _label(label, x, y, radius, boxes) if labelled else (x, y, "")
    used_text = "utilisation unknown" if row.utilisation is None else f"{row.utilisation:.0%} used"
    return Marker(
        region=row.region,
        state=row.state,
        x=round(x, 1),
        y=round(y, 1),
        radius=round(radius, 1),
        used_radius=round(used, 1),
        label=label,
        label_x=round(label_x, 1),
        label_y=round(label_y, 1),
        anchor=anchor,
        title=f"{row.region}: {row.state.replace('_', ' ')}, {used_text}",
    )


def _label(
    text: str, x: float, y: float, radius: float, boxes: list[tuple[float, float, float, float]]
) -> tuple[float, float, str]:
    """Right, left, below or above the disc: the first place that covers no disc and no label; else below."""
    width = len(text) * CHAR_WIDTH
    places = (
        (x + radius + 4, y + 3.5, "start"),
        (x - radius - 4, y + 3.5, "end"),
        (x, y + radius + LINE, "middle"),
        (x, y - radius - 5, "middle"),
    )
    for label_x, label_y, anchor in places:
        left = label_x - {"start": 0.0, "end": width, "middle": width / 2}[anchor]
        box = (left, label_y - LINE + 3, left + width, label_y + 3)
        inside = box[0] >= 0 and box[2] <= WIDTH and box[1] >= 0 and box[3] <= HEIGHT
        if inside and not any(_overlap(box, other) for other in boxes):
            boxes.append(box)
            return label_x, label_y, anchor
    return places[2]


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _place(row: RegionRow) -> tuple[float, float]:
    location = row.policy.location
    assert location is not None
    return (location.lon + 180) * 2, _y(location.lat)


def _y(lat: float) -> float:
    return min(HEIGHT - 4, max(4.0, (84 - lat) * 2.2))
