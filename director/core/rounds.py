"""How one route's traffic is divided: home, overflow, relief, overload, refusal (docs/decision.md, section 5).

The same arithmetic runs twice. The planner runs it over all routes at once, to learn what each deployment is offered in
each round and so which fraction it can take; every replica runs it per route with those fractions. Because fractions
are published per round, a replica's shares are exactly what the planner foresaw.

    home      each candidate takes home_share · admit_home (captive routes: admit_captive)
    overflow  what is left is offered over headroom, nearest first; each takes its round's fraction; one that takes
              only part leaves; the rest repeats
    relief    the same again over candidates that only slow start holds back: pace yields before a refusal does
    overload  what is still left fills healthy candidates to the ceiling, over home shares first, if the tenant shares

Everything here is a fraction of the route's traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Stage = Literal["overflow", "relief", "overload"]

ROUNDS_MAX = 64
"""A bound, not a tuning: every round empties what is left or retires a candidate, and two or three are usual."""
NOTHING = 1e-9
"""A fraction of a route too small to offer: below one request in a billion."""


class Entrant(Struct):
    """One candidate of one route as the rounds see it. Ratios come from the plan."""

    near_ms: float
    home_share: float
    """Of the route, over candidates that pass the lasting filters."""
    eligible: bool
    """Passes every filter."""
    headroom_tokens_per_s: float
    capacity_tokens_per_s: float
    admit_home: float
    """The fraction of its home share that it takes; the captive one on a captive route."""
    admit_overflow: Sequence[float] = ()
    admit_relief: Sequence[float] = ()
    admit_overload: Sequence[float] = ()
    share_max: float = 1.0
    """An operator's cap."""
    home: float = 0.0
    overflow: float = 0.0
    relief: float = 0.0
    overload: float = 0.0

    @property
    def total(self) -> float:
        return self.home + self.overflow + self.relief + self.overload


def home_shares(near_ms: Sequence[float], capacity: Sequence[float], spread_ms: float) -> list[float]:
    """Shares ∝ capacity · max(0, 1 − (near − nearest) / spread), over candidates that pass the lasting filters.

    Continuous in every input. Where no capacity is known the candidates count alike; the sum is 1, or 0 for nobody.
    """
    if not near_ms:
        return []
    if not any(capacity):
        capacity = [1.0] * len(near_ms)
    weights = [c * locality(n, min(near_ms), spread_ms) for n, c in zip(near_ms, capacity, strict=True)]
    total = sum(weights)
    if total > 0:
        return [weight / total for weight in weights]
    # Those within the spread have no capacity at all: the nearest that has some is home.
    reference = min(n for n, c in zip(near_ms, capacity, strict=True) if c > 0)
    weights = [c * locality(n, reference, spread_ms) for n, c in zip(near_ms, capacity, strict=True)]
    total = sum(weights)
    return [weight / total for weight in weights]


def locality(near_ms: float, nearest_ms: float, spread_ms: float) -> float:
    """1 for the nearest, falling linearly to 0 at `spread_ms` beyond it."""
    if near_ms < nearest_ms:
        return 0.0
    if spread_ms <= 0:
        return 1.0 if near_ms == nearest_ms else 0.0
    return max(0.0, 1.0 - (near_ms - nearest_ms) / spread_ms)


def take_home(entrants: Sequence[Entrant]) -> float:
    """Give each eligible candidate its admitted home share; returns what is left of the route."""
    left = 1.0
    for entrant in entrants:
        if entrant.eligible and entrant.home_share > 0:
            entrant.home = min(entrant.home_share * entrant.admit_home, entrant.share_max)
            left -= entrant.home
    return max(0.0, left)


def offers(weights: Sequence[float], near_ms: Sequence[float], spread_ms: float) -> list[float]:
    """One round's split of 1 over those still in (weight > 0): weight · locality, the nearest of them as reference."""
    inside = [n for n, w in zip(near_ms, weights, strict=True) if w > 0]
    if not inside:
        return [0.0] * len(weights)
    reference = min(inside)
    parts = [w * locality(n, reference, spread_ms) if w > 0 else 0.0 for n, w in zip(near_ms, weights, strict=True)]
    total = sum(parts)
    return [part / total for part in parts]


def allocate(entrants: Sequence[Entrant], spread_ms: float, *, share_overload: bool) -> float:
    """Fill in every entrant's shares; returns the refused part. The sum of totals and the refused part is 1."""
    left = take_home(entrants)
    if left > NOTHING:
        left = _rounds(entrants, left, spread_ms, "overflow")
    if left > NOTHING:
        left = _rounds(entrants, left, spread_ms, "relief")
    if left > NOTHING and share_overload:
        left = _overload(entrants, left, spread_ms)
    return left if left > NOTHING else 0.0


def _rounds(entrants: Sequence[Entrant], left: float, spread_ms: float, stage: Stage) -> float:
    """Overflow and relief: offer until nothing or nobody is left."""
    ratios = [getattr(e, f"admit_{stage}") if e.eligible else () for e in entrants]
    weights = [stage_weight(e, stage) if ratio else 0.0 for e, ratio in zip(entrants, ratios, strict=True)]
    return _offer(entrants, ratios, weights, left, spread_ms, stage, first_round=0)


def _overload(entrants: Sequence[Entrant], left: float, spread_ms: float) -> float:
    """To the ceiling: over home shares first, then over capacity by nearness."""
    ratios = [e.admit_overload if e.eligible else () for e in entrants]
    rest = left
    for entrant, ratio in zip(entrants, ratios, strict=True):
        if ratio and entrant.home_share > 0:
            rest -= take(entrant, left * entrant.home_share, ratio[0], "overload")
    if rest <= NOTHING:
        return rest
    weights = [e.capacity_tokens_per_s if r else 0.0 for e, r in zip(entrants, ratios, strict=True)]
    return _offer(entrants, ratios, weights, rest, spread_ms, "overload", first_round=1)


def _offer(
    entrants: Sequence[Entrant],
    ratios: Sequence[Sequence[float]],
    weights: list[float],
    left: float,
    spread_ms: float,
    stage: Stage,
    first_round: int,
) -> float:
    near = [e.near_ms for e in entrants]
    for number in range(first_round, first_round + ROUNDS_MAX):
        split = offers(weights, near, spread_ms)
        if left <= NOTHING or not any(split):
            break
        taken = 0.0
        for i, part in enumerate(split):
            if part <= 0:
                continue
            ratio = ratio_of(ratios[i], number)
            offered = left * part
            took = take(entrants[i], offered, ratio, stage)
            taken += took
            if ratio < 1.0 or took < offered * ratio - NOTHING:
                weights[i] = 0.0
        left -= taken
    return max(0.0, left)


def stage_weight(entrant: Entrant, stage: Stage) -> float:
    """What a round divides by: guests go by headroom, the last resorts by capacity."""
    return entrant.headroom_tokens_per_s if stage == "overflow" else entrant.capacity_tokens_per_s


def ratio_of(ratios: Sequence[float], number: int) -> float:
    """The fraction taken in a round. A round beyond the last repeats the last; whoever is closed has no rounds."""
    if not ratios:
        return 0.0
    return ratios[number] if number < len(ratios) else ratios[-1]


def take(entrant: Entrant, offered: float, ratio: float, stage: Stage) -> float:
    took = min(offered * ratio, max(0.0, entrant.share_max - entrant.total))
    setattr(entrant, stage, getattr(entrant, stage) + took)
    return took
