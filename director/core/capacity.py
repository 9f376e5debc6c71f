"""What a deployment can sustain, in tokens per second: ready slots × rate per slot, at most the policy's ceiling.

Slots follow scaling up and down at once. The rate per slot is learnt from completions, never from arrivals: arrivals
lead, and overstate capacity in the very surge that matters. A batching engine that is half empty looks fast per slot,
so samples below `OCCUPANCY_TRUSTED` may only lower what is believed, unless the deployment sheds while it is below its
target: then they are all there is to learn from.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp
from statistics import median
from typing import Literal

from msgspec import Struct

from director.core.deadband import Band, Tracker, observe
from director.core.report import DeploymentReport, Stage

OCCUPANCY_TRUSTED = 0.5
OCCUPANCY_MIN = 0.05
"""Below this a sample says nothing: one request more or less would change it by half."""
SLOTS_PER_REPLICA = 256.0
"""Where a report gives no max_running: the engines' usual default of concurrent sequences."""
MIX_S = 300.0
"""How long the mix of prompt and generated tokens is remembered: it is the workload's, and changes by the hour."""
ASSUMED_TOKENS_PER_S_PER_SLOT = 60.0
"""Where nothing was ever measured or configured anywhere: about what a busy slot of a 70B model does."""
RATE_BAND = Band(fast_s=15.0, slow_s=60.0, sigmas=6.0, floor_ratio=0.03)

Source = Literal["configured", "estimated", "median", "none"]


def slots(report: DeploymentReport) -> float:
    """Requests that the ready replicas run at once. `max_running` is over ready replicas as reported."""
    if report.replicas.ready <= 0:
        return 0.0
    if report.max_running is not None:
        return report.max_running
    return SLOTS_PER_REPLICA * report.replicas.ready


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
    if part is None:
        return None
    available = slots(report)
    waiting = report.waiting or 0.0
    return part + (waiting / available if available > 0 else 0.0)


class Mix(Struct, frozen=True, array_like=True):
    """How many tokens a generated token brings along: slow averages of prompt and generation tokens/s."""

    prompt: float = 0.0
    generation: float = 0.0
    seen_s: float = 0.0

    @property
    def tokens_per_generated(self) -> float:
        return (self.prompt + self.generation) / self.generation if self.generation > 0 else 1.0


def follow_mix(mix: Mix, report: DeploymentReport, dt_s: float) -> Mix:
    """Take one report's tokens into the averages."""
    done = report.completed
    if done is None or done.generation_tokens_per_s is None:
        return mix
    seen_s = mix.seen_s + dt_s
    a = max(1.0 - exp(-dt_s / MIX_S), dt_s / seen_s)
    prompt = mix.prompt + a * ((done.prompt_tokens_per_s or 0.0) - mix.prompt)
    return Mix(prompt, mix.generation + a * (done.generation_tokens_per_s - mix.generation), seen_s)


def completed_tokens_per_s(report: DeploymentReport, mix: Mix) -> float | None:
    """What the occupied slots work off. Prompt tokens are counted when a prompt is prefilled, which is on arrival, so
    the sum of both leads in a surge like arrivals do. Every occupied slot generates at the engine's speed whatever its
    age, so generation is what is measured, and the slow mix tells how many tokens come with each generated one.
    """
    done = report.completed
    if done is None or done.generation_tokens_per_s is None:
        return None
    if mix.generation <= 0:
        return done.generation_tokens_per_s + (done.prompt_tokens_per_s or 0.0)
    return done.generation_tokens_per_s * mix.tokens_per_generated


def learn(
    trusted: Tracker, low: Tracker, report: DeploymentReport, mix: Mix, dt_s: float, *, sheds_below_target: bool
) -> tuple[Tracker, Tracker]:
    """Take one report's sample into the trusted rate or, from a half-empty engine, into the upper bound."""
    part, done, available = occupancy(report), completed_tokens_per_s(report, mix), slots(report)
    if part is None or done is None or available <= 0 or part < OCCUPANCY_MIN:
        return trusted, low
    sample = done / (part * available)
    if part >= OCCUPANCY_TRUSTED or sheds_below_target:
        return observe(trusted, sample, dt_s, RATE_BAND), low
    return trusted, observe(low, sample, dt_s, RATE_BAND)


def rate_per_slot(
    trusted: Tracker, low: Tracker, report: DeploymentReport, model_median: float | None
) -> tuple[float, Source]:
    """Tokens/s per slot and where it came from: measured, else configured, else the model's median, else assumed."""
    available = slots(report)
    if trusted.known:
        rate, source = trusted.published, "estimated"
    elif report.capacity_tokens_per_s is not None and available > 0:
        rate = report.capacity_tokens_per_s / available
        source = report.capacity_source or "configured"
    elif model_median is not None:
        rate, source = model_median, "median"
    else:
        rate, source = ASSUMED_TOKENS_PER_S_PER_SLOT, "none"
    if low.known and low.published < rate:
        return low.published, "estimated"
    return rate, source  # type: ignore[return-value]


def median_rate(rates: Iterable[float]) -> float | None:
    known = sorted(rates)
    return median(known) if known else None


def _stage_occupancy(stage: Stage) -> float | None:
    return _worse(stage.running, stage.max_running, stage.kv_usage)


def _worse(running: float | None, available: float | None, kv_usage: float | None) -> float | None:
    parts = []
    if running is not None and available:
        parts.append(running / available)
    if kv_usage is not None:
        parts.append(kv_usage)
    return max(parts) if parts else None
