"""How one route's traffic is divided: home, overflow, relief, overload, refusal (docs/decision.md, sections 3 to 5).

The same arithmetic runs twice. The planner runs it over all routes at once, to learn what each deployment is offered in
each round and so which fraction it can take; every replica runs it per route with those fractions. Because fractions
are published per round, a replica's shares are exactly what the planner foresaw.

    home      each candidate takes home_share · admit_home (captive routes: admit_captive)
    overflow  what is left is offered over headroom, nearest first; each takes its round's fraction; one that takes
              only part leaves; the rest repeats
    relief    the same again over candidates that slow start, their reserve or a guess holds back: each yields before a
              refusal or an overload does
    overload  what is still left fills healthy candidates to the ceiling, over home shares first, if the tenant shares

Candidates stand in a lane, nearest first, so that a round touches only those within `spread_ms` of the nearest that is
still in. Everything here is a fraction of the route's traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Stage = Literal["overflow", "relief", "overload"]

ROUNDS_MAX = 64
"""A bound, not a tuning: every round empties what is left or retires a candidate, and two or three are usual."""
NOTHING = 1e-9
"""A fraction of a route too small to offer: below one request in a billion."""


class Lane:
    """A route's lasting candidates by position, nearest first, and what each takes in each stage."""

    __slots__ = ("home", "home_share", "left", "near_ms", "overflow", "overload", "relief", "spread_ms")

    def __init__(self, near_ms: Sequence[float], spread_ms: float, home_share: dict[int, float]) -> None:
        self.near_ms = near_ms
        self.spread_ms = spread_ms
        self.home_share = home_share
        self.home: dict[int, float] = {}
        self.overflow: dict[int, float] = {}
        self.relief: dict[int, float] = {}
        self.overload: dict[int, float] = {}
        self.left = 1.0

    def total(self, position: int) -> float:
        return (
            self.home.get(position, 0.0)
            + self.overflow.get(position, 0.0)
            + self.relief.get(position, 0.0)
            + self.overload.get(position, 0.0)
        )

    def stage(self, name: Stage) -> dict[int, float]:
        if name == "overflow":
            return self.overflow
        return self.relief if name == "relief" else self.overload

    def take_home(self, position: int, ratio: float, share_max: float) -> float:
        """Give a candidate its admitted home share."""
        took = min(self.home_share[position] * ratio, share_max)
        self.home[position] = took
        self.left = max(0.0, self.left - took)
        return took

    def take(self, name: Stage, position: int, offered: float, ratio: float, share_max: float) -> float:
        """Give a candidate its fraction of an offer, within an operator's cap. Does not change what is left."""
        took = offered * ratio
        if share_max < 1.0:
            took = min(took, max(0.0, share_max - self.total(position)))
        if took > 0:
            taken = self.stage(name)
            taken[position] = taken.get(position, 0.0) + took
        return took


def home_shares(near_ms: Sequence[float], capacity: Sequence[float], spread_ms: float) -> dict[int, float]:
    """Shares ∝ capacity · max(0, 1 − (near − nearest) / spread), by position; `near_ms` rises.

    Continuous in every input. The sum is 1, or 0 for nobody. Where those within the spread have no capacity at all, the
    nearest that has some is home; where nobody has, they count alike.
    """
    parts = offers(near_ms, capacity, spread_ms, reference_must_weigh=False)
    parts = parts or offers(near_ms, capacity, spread_ms) or offers(near_ms, (1.0,) * len(near_ms), spread_ms)
    return dict(parts)


def offers(
    near_ms: Sequence[float],
    weights: Sequence[float],
    spread_ms: float,
    *,
    reference_must_weigh: bool = True,
    first: int = 0,
) -> list[tuple[int, float]]:
    """One round's split of 1 over those with a weight: weight · locality, (position, part), nearest first.

    Locality is 1 for the nearest with a weight and falls linearly to 0 at `spread_ms` beyond it; where
    `reference_must_weigh` is false the very nearest is the reference. Nobody before `first` has a weight.
    """
    if reference_must_weigh:
        while first < len(weights) and weights[first] <= 0:
            first += 1
    if first >= len(weights):
        return []
    reference, total = near_ms[first], 0.0
    parts: list[tuple[int, float]] = []
    for position in range(first, len(weights)):
        beyond = near_ms[position] - reference
        if beyond >= spread_ms and beyond > 0:
            break
        weight = weights[position]
        if weight > 0:
            part = weight * (1.0 - beyond / spread_ms) if beyond > 0 else weight
            if part > 0:
                parts.append((position, part))
                total += part
    return [(position, part / total) for position, part in parts]


def ratio_of(ratios: Sequence[float], number: int) -> float:
    """The fraction taken in a round. A round beyond the last repeats the last; whoever is closed has no rounds."""
    if not ratios:
        return 0.0
    return ratios[number] if number < len(ratios) else ratios[-1]


def spread(
    lane: Lane, name: Stage, weights: list[float], ratios: Sequence[Sequence[float]], share_max: Sequence[float]
) -> None:
    """Run one stage for one route with published fractions, until nothing or nobody is left.

    `weights`, `ratios` and `share_max` by position; a weight of 0 is out. Overload's first round goes over home shares.
    """
    first = 0
    if name == "overload":
        rest = lane.left
        for position, share in lane.home_share.items():
            if weights[position] > 0:
                rest -= lane.take(name, position, lane.left * share, ratio_of(ratios[position], 0), share_max[position])
        lane.left = max(0.0, rest)
        first = 1
    for number in range(first, first + ROUNDS_MAX):
        split = offers(lane.near_ms, weights, lane.spread_ms) if lane.left > NOTHING else ()
        if not split:
            break
        taken = 0.0
        for position, part in split:
            ratio, offered = ratio_of(ratios[position], number), lane.left * part
            took = lane.take(name, position, offered, ratio, share_max[position])
            taken += took
            if leaves(ratio, took, offered):
                weights[position] = 0.0
        lane.left = max(0.0, lane.left - taken)


def leaves(ratio: float, took: float, offered: float) -> bool:
    """Whoever takes only part of an offer is full, or capped, and is asked no more."""
    return ratio < 1.0 or took < offered * ratio - NOTHING
