"""How an engine slows down as it fills, and what it would do at its target.

Problem: what has to be known is the rate of a slot when the engine is as full as it may get, and what can be measured
is the rate at the occupancy of this moment. A batching engine that is half empty makes two or three times as many
tokens for each occupied slot, so the plain figure overstates capacity exactly when a surge begins.

Why it can be solved: a decode step takes a fixed time and a time for each sequence in it, so the time a slot needs for
a token is a straight line over occupancy. One point gives the rate there; two points, some way apart, give the bend.

    pace(occupancy) = pace(target) · (1 − bend · (target − occupancy))          pace: slot-seconds per token

Mechanism: occupancy and pace are averaged slowly. A report whose occupancy lies well off the average, further than its
own noise explains, is a second point: it bends the line, and its rate at the target is news at once, since an engine
that moved along its curve is not a noisy engine. Every other sample is carried to the target along the bend known so
far. Before anything was learnt a modest bend is assumed: wrong for an engine that does not slow down, it sheds a little
early until the first report of a surge; none at all would overrun the others.

Hard cases: completions belong to an interval and occupancy is read at its end, so the mean of both ends is used, bowed
as `filling` knows, or a filling engine would look slow. Only generated tokens count here: prompts are counted on
arrival (see `capacity`).
"""

from __future__ import annotations

from math import sqrt

from msgspec import Struct, structs

from director.core.deadband import weight
from director.core.filling import UNKNOWN, Filling

BEND_UNKNOWN = 0.4
BEND_MAX = 1.05
"""At 1 ÷ 0.9 an empty engine would be infinitely fast."""
AVERAGE_S = 60.0
MOVED_MIN = 0.08
"""Of all slots: less than that apart, two points say nothing about a line."""
MOVED_SIGMAS = 5.0
FLAT = 0.3
"""A line that falls by no more than this may be a flat one, seen through noise."""
FAR_APART = 0.3
"""Points so far apart settle the bend at once; nearer ones only in part."""
OCCUPANCY_MIN = 0.05
"""Below this a sample says nothing: one request more or less would change it by half."""
RATE_MIN = 1e-3
"""Tokens/s per slot: an engine that makes less hangs, which its timeouts tell and its rate cannot."""
SWING_MAX = 0.5
"""Of a batch that changed by this much of itself between two reports, it is not known well enough when it did."""
SKIPPED_MAX = 3
"""Where every interval is like that, poor samples are better than none."""
NOISE_S = 120.0
_SAMPLES_MIN = 8
_SWERVE_MIN = MOVED_MIN**2 / 4.0
_WINSOR = 9.0


class Curve(Struct, frozen=True, array_like=True, gc=False):
    """What is known of one deployment's line. `last` are the slots occupied at the newest report: not a ratio, so that
    replicas may come and go between two reports; the averages lag behind."""

    last: float = -1.0
    before_last: float = -1.0
    occupancy: float = 0.0
    noise: float = 0.0
    """Variance of one occupancy sample, from second differences: an engine that fills steadily is not a noisy one."""
    pace: float = 0.0
    bend: float = BEND_UNKNOWN
    learnt: bool = False
    samples: int = 0
    skipped: int = 0
    """Intervals in a row that taught nothing."""


class Reading(Struct, frozen=True, gc=False):
    """A report seen through the curve. `rate`: generated tokens/s per slot at the target; None: it says nothing."""

    curve: Curve
    rate: float | None
    moved: bool
    """The engine is elsewhere on its line than it was: the rate is news, not noise."""


def read(
    curve: Curve,
    occupancy: float,
    slots: float,
    generated_per_s: float,
    target: float,
    dt_s: float,
    foreseen: Filling = UNKNOWN,
) -> Reading:
    """Take one report into the curve. `occupancy` is of its end, `generated_per_s` of the `dt_s` before it; `foreseen`
    is how the batch should have filled meanwhile.
    """
    occupied, last, samples = occupancy * slots, curve.last, curve.samples
    if last < 0.0 or slots <= 0.0:
        return Reading(_with(curve, last=occupied), None, moved=False)
    mean = (last + occupied) / 2.0 / slots + foreseen.bow
    mean = 0.0 if mean < 0.0 else mean if mean < 1.0 else 1.0
    if mean < OCCUPANCY_MIN or occupancy < OCCUPANCY_MIN or generated_per_s < RATE_MIN * slots:
        return Reading(_with(curve, last=occupied), None, moved=False)
    if curve.skipped < SKIPPED_MAX and abs(occupied - last) > SWING_MAX * mean * slots:
        return Reading(_with(curve, last=occupied, skipped=curve.skipped + 1), None, moved=False)
    pace = mean * slots / generated_per_s
    if samples == 0:
        first = _with(curve, last=occupied, occupancy=mean, pace=pace, samples=1)
        return Reading(first, _at_target(pace, mean, first.bend, target), moved=False)
    apart, noise = mean - curve.occupancy, curve.noise
    moved = (
        abs(apart) > MOVED_MIN
        and samples >= _SAMPLES_MIN
        and abs(apart) > MOVED_SIGMAS * sqrt(noise)
        # Fuller and faster, or emptier and slower, is no move along a curve; the averages will tell.
        and (pace - curve.pace) * apart > -FLAT * curve.pace * abs(apart)
    )
    bend = _bent(curve, apart, pace, mean, target) if moved else curve.bend
    early = 1.0 / (samples + 1)
    a = known if (known := weight(dt_s, AVERAGE_S)) > early else early
    if curve.before_last >= 0.0:
        swerve = ((occupied - 2.0 * last + curve.before_last) / slots) ** 2 / 6.0
        # A move is not noise: it counts no more than the noise known so far, and one jump no more than a little.
        most = noise if moved else max(_WINSOR * noise, _SWERVE_MIN)
        a_noise = known if (known := weight(dt_s, NOISE_S)) > early else early
        noise += a_noise * ((swerve if swerve < most else most) - noise)
    following = Curve(
        occupied,
        last,
        curve.occupancy + a * apart,
        noise,
        curve.pace + a * (pace - curve.pace),
        bend,
        curve.learnt or moved,
        samples + 1,
    )
    return Reading(following, _at_target(pace, mean, bend, target), moved)


def forget_last(curve: Curve) -> Curve:
    """After a silence: the next report's interval has one known end only."""
    return structs.replace(curve, last=-1.0, before_last=-1.0)


def _bent(curve: Curve, apart: float, pace: float, mean: float, target: float) -> float:
    """The bend through the average and this point, believed the more the further they are apart."""
    slope = (pace - curve.pace) / apart
    pace_at_target = pace + slope * (target - mean)
    if pace_at_target <= 0.0:
        return curve.bend
    seen = min(BEND_MAX, max(0.0, slope / pace_at_target))
    return seen if not curve.learnt else curve.bend + min(1.0, abs(apart) / FAR_APART) * (seen - curve.bend)


def _at_target(pace: float, occupancy: float, bend: float, target: float) -> float:
    """An engine that is fuller than its target is taken as it is: no credit for what it would do with less."""
    return (1.0 - bend * (target - occupancy)) / pace if occupancy < target else 1.0 / pace


def _with(
    curve: Curve,
    last: float,
    occupancy: float | None = None,
    pace: float | None = None,
    samples: int | None = None,
    skipped: int = 0,
) -> Curve:
    return Curve(
        last,
        curve.last,
        curve.occupancy if occupancy is None else occupancy,
        curve.noise,
        curve.pace if pace is None else pace,
        curve.bend,
        curve.learnt,
        curve.samples if samples is None else samples,
        skipped,
    )
