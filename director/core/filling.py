"""How full a deployment's slots are by now, and how they got there: a report is old, and what was sent is known.

Utilisation follows what is sent as a first-order lag of one request life (Little's law: slots in use = rate · life), so
between reports it is moved on by what replicas decided:

    d now ÷ dt = (sent ÷ capacity − now) ÷ life

A report above it is believed at once, one below it by half: a report cannot know of what is on its way.

Two things need it. Admission is about rates, and a rate that nobody could sustain for a minute may well be held for ten
seconds, by slots that stand empty: the last step before a refusal uses them (`admission`). There is no delay in it, so
it cannot ring. And capacity is learnt from what an interval made, which takes its mean occupancy: where a batch filled
early or late in it, the mean of both ends is wrong by the `bow` between them (`curve`).
"""

from __future__ import annotations

from math import exp

from msgspec import Struct

from director.core.report import DeploymentReport

LIFE_S_MIN, LIFE_S_UNKNOWN, LIFE_S_MAX = 1.0, 15.0, 120.0
BELIEVED = 0.5
SENT_MAX = 2.0


class Filling(Struct, frozen=True, array_like=True, gc=False):
    """`now`: slots in use as a ratio, a queue on top; below 0: unknown. The rest is since the newest report."""

    now: float = -1.0
    first: float = 0.0
    sum: float = 0.0
    """Of the ratio, at most 1, over seconds."""
    span_s: float = 0.0

    @property
    def known(self) -> bool:
        return self.now >= 0.0

    @property
    def bow(self) -> float:
        """How far the mean of the interval lies above the mean of its ends, as a ratio of all slots."""
        if self.now < 0.0 or self.span_s <= 0.0:
            return 0.0
        return self.sum / self.span_s - (self.first + (self.now if self.now < 1.0 else 1.0)) / 2.0


UNKNOWN = Filling()


def life_s(report: DeploymentReport) -> float:
    """How long a request stays: running ÷ completed requests per second."""
    done, running = report.completed, report.running
    completed = done.requests_per_s if done is not None else None
    life = running / completed if running and completed else LIFE_S_UNKNOWN
    if life < LIFE_S_MIN:
        return LIFE_S_MIN
    return life if life < LIFE_S_MAX else LIFE_S_MAX


def reported(filling: Filling, utilisation: float | None) -> Filling:
    """After a report, from which a new interval begins. Unknown where it does not say."""
    if utilisation is None:
        return UNKNOWN
    now, before = utilisation, filling.now
    if before >= 0.0 and utilisation < before:
        now = before + BELIEVED * (utilisation - before)
    return Filling(now, now if now < 1.0 else 1.0)


def moved_on(filling: Filling, sent: float, capacity: float, life_s: float, dt_s: float) -> Filling:
    """After `dt_s` in which `sent` tokens/s came, against a capacity of so many, and stayed for `life_s`."""
    before = filling.now
    if before < 0.0 or capacity <= 0.0:
        return filling
    towards = sent / capacity if sent < SENT_MAX * capacity else SENT_MAX
    now = before + (towards - before) * (1.0 - exp(-dt_s / life_s))
    mean = ((before if before < 1.0 else 1.0) + (now if now < 1.0 else 1.0)) / 2.0
    return Filling(now, filling.first, filling.sum + mean * dt_s, filling.span_s + dt_s)
