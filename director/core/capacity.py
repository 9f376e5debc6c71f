"""What a deployment can sustain, in tokens per second: ready slots × rate per slot, at most the policy's ceiling.

Slots follow scaling up and down at once. The rate per slot is learnt from what comes out, never from what goes in:
arrivals lead, and overstate capacity in the very surge that matters. Three steps make a report's figures a rate:

    generated tokens/s ÷ occupied slots      every occupied slot generates at the engine's speed, whatever its age
    carried to the home target               a half-empty engine is faster per slot than a full one: `curve`
    × tokens that come with a generated one  the slow `Mix` of prompts and answers

Engines count prompt tokens when they prefill, which is at arrival. So a mix takes the mean prompt (prompt tokens ÷
arrivals) for each request that *ended*, beside what was generated meanwhile: in a surge completions lag generation by
a fifth of a request's life, where arrivals lead it by four fifths. Until every slot has turned over once there is no
such balance; that start-up is measured by the plain sums, and forgotten when it is over.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from director.core.curve import OCCUPANCY_MIN, Curve, read
from director.core.deadband import Band, Tracker, observe, restart, weight
from director.core.filling import UNKNOWN, Filling
from director.core.report import DeploymentReport, Stage

SLOTS_PER_REPLICA = 256.0
"""Where a report gives no max_running: the engines' usual default of concurrent sequences."""
MIX_S = 900.0
"""How long the mix of prompt and generated tokens is remembered: it is the workload's, and changes by the hour."""
TURNED_OVER = 1.5
"""Slots that have ended so many requests each are in balance: what ends is what began."""
KEPT_OUT_S = 30.0
"""A deployment that was short of capacity for so long, and idles, is short because its figure is wrong."""
TURNOVER_UNKNOWN_S = 30.0
"""Taken for a request's life where a report does not say how many ended."""
ASSUMED_TOKENS_PER_S_PER_SLOT = 60.0
"""Where nothing was ever measured or configured anywhere: about what a busy slot of a 70B model does."""
RATE_BAND = Band(fast_s=15.0, slow_s=180.0, sigmas=10.0, floor_ratio=0.03, learning_s=180.0)
"""Wide, because neighbouring samples share an occupancy reading, and their differences show half of their noise; slow,
because an engine that moves along its curve is told apart (`Reading.moved`) and does not wait for this."""

Source = Literal["configured", "estimated", "median", "none"]


def slots(report: DeploymentReport) -> float:
    """Requests that the ready replicas run at once. `max_running` is over ready replicas as reported."""
    ready = report.replicas.ready
    if ready <= 0:
        return 0.0
    return report.max_running if report.max_running is not None else SLOTS_PER_REPLICA * ready


def occupancy(report: DeploymentReport) -> float | None:
    """The worse of running ÷ max_running and KV use, or the worse stage where they are apart. None: unknown."""
    if report.stages is not None:
        parts = [_stage_occupancy(report.stages.prefill), _stage_occupancy(report.stages.decode)]
        known = [part for part in parts if part is not None]
        return max(known) if known else None
    return _worse(report.running, slots(report), report.kv_usage)


def utilisation(report: DeploymentReport) -> float | None:
    """Occupancy, with what waits on top: above 1 where a queue stands."""
    part = occupancy(report)
    if part is None or not report.waiting:
        return part
    available = slots(report)
    return part + (report.waiting / available if available > 0 else 0.0)


class Mix(Struct, frozen=True, array_like=True, gc=False):
    """How many tokens a generated token brings along: slow averages of rates per second."""

    prompt: float = 0.0
    arrived: float = 0.0
    """Requests; 0 where reports do not say."""
    ended: float = 0.0
    generation: float = 0.0
    seen_s: float = 0.0
    turnover: float = 0.0
    """How often the slots have changed their requests since the deployment was first seen."""

    @property
    def balanced(self) -> bool:
        return self.turnover >= TURNED_OVER

    @property
    def prompt_mean(self) -> float | None:
        """Tokens of a mean prompt; None where reports do not say."""
        return self.prompt / self.arrived if self.turnover >= TURNED_OVER and self.arrived > 0.0 else None

    @property
    def tokens_per_generated(self) -> float:
        """At least 1; 1 where nothing is known."""
        if self.generation <= 0.0:
            return 1.0
        prompt, arrived, generation = self.prompt, self.arrived, self.generation
        if self.turnover >= TURNED_OVER and arrived > 0.0 and self.ended > 0.0:
            prompt *= self.ended / arrived
        return (prompt + generation) / generation


def follow_mix(mix: Mix, report: DeploymentReport, dt_s: float) -> Mix:
    """Take one report's tokens into the averages; they start anew when the slots have turned over."""
    done = report.completed
    if done is None or done.generation_tokens_per_s is None:
        return mix
    arrived = report.arrived.requests_per_s if report.arrived is not None else None
    turnover = mix.turnover
    if turnover < TURNED_OVER:
        turnover += _turned_over(done.requests_per_s, report.running, dt_s)
        if turnover >= TURNED_OVER:
            mix = Mix()
    seen_s = mix.seen_s + dt_s
    a, early = weight(dt_s, MIX_S), dt_s / seen_s
    if early > a:
        a = early
    prompt, came, ended, generation = mix.prompt, mix.arrived, mix.ended, mix.generation
    return Mix(
        prompt + a * ((done.prompt_tokens_per_s or 0.0) - prompt),
        came + a * ((arrived or 0.0) - came),
        ended + a * ((done.requests_per_s or 0.0) - ended),
        generation + a * (done.generation_tokens_per_s - generation),
        seen_s,
        turnover,
    )


def _turned_over(ended_per_s: float | None, running: float | None, dt_s: float) -> float:
    if ended_per_s is None or not running:
        return dt_s / TURNOVER_UNKNOWN_S
    return ended_per_s * dt_s / max(1.0, running)


class Learnt(Struct, frozen=True, gc=False):
    """What is known of a deployment's rate."""

    rate: Tracker
    """Tokens/s per slot at the home target."""
    curve: Curve
    mix: Mix


def idle(report: DeploymentReport) -> bool:
    """Whether so little runs that nothing can be learnt from it."""
    part = occupancy(report)
    return part is not None and part < OCCUPANCY_MIN and not report.waiting


def learn(
    known: Learnt, report: DeploymentReport, dt_s: float, home_target: float, foreseen: Filling = UNKNOWN
) -> Learnt:
    """Take one report into what is known of the deployment's rate. `foreseen`: how it should have filled meanwhile."""
    rate, curve, mix = known.rate, known.curve, known.mix
    part, done, available = occupancy(report), report.completed, slots(report)
    following = follow_mix(mix, report, dt_s)
    if part is None or done is None or done.generation_tokens_per_s is None or available <= 0.0:
        return Learnt(rate, curve, following)
    reading = read(curve, part, available, done.generation_tokens_per_s, home_target, dt_s, foreseen)
    if reading.rate is None:
        return Learnt(rate, reading.curve, following)
    sample = reading.rate * following.tokens_per_generated
    if following.balanced != mix.balanced:
        # In balance at last: what was averaged until here, its noise too, is about something else.
        return Learnt(observe(Tracker(), sample, dt_s, RATE_BAND), reading.curve, following)
    if reading.moved:
        return Learnt(restart(rate, sample, dt_s), reading.curve, following)
    return Learnt(observe(rate, sample, dt_s, RATE_BAND), reading.curve, following)


def rate_per_slot(measured: Tracker, report: DeploymentReport, model_median: float | None) -> tuple[float, Source]:
    """Tokens/s per slot and where it came from: measured, else configured, else the model's median, else assumed."""
    if measured.samples > 0:
        return measured.published, "estimated"
    available = slots(report)
    if report.capacity_tokens_per_s is not None and available > 0:
        return report.capacity_tokens_per_s / available, report.capacity_source or "configured"
    if model_median is not None:
        return model_median, "median"
    return ASSUMED_TOKENS_PER_S_PER_SLOT, "none"


def _stage_occupancy(stage: Stage) -> float | None:
    return _worse(stage.running, stage.max_running, stage.kv_usage)


def _worse(running: float | None, available: float | None, kv_usage: float | None) -> float | None:
    part = running / available if running is not None and available else None
    if part is None or kv_usage is None:
        return kv_usage if part is None else part
    return part if part >= kv_usage else kv_usage
