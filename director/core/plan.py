"""The planner's published state: one row per epoch, small, readable by a person. Replicas serve from it.

A plan holds published values only. Whatever wobbles (averages, variances, counters) lives in `state` and reaches the
plan through a deadband, so that noise writes no plans.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct, structs

from director.core.report import EngineState, Health

Freshness = Literal["fresh", "stale", "lost", "unseen"]
BreakerState = Literal["closed", "open", "half_open"]


class DeploymentKey(NamedTuple):
    region: str
    model: str
    version: str


class OperatorMark(Struct, frozen=True, gc=False):
    """An operator's drain or down, as it shows beside what is observed."""

    kind: Literal["drain", "down"]
    who: str
    reason: str
    deadline_ms: int | None = None


class RegionPlan(Struct, frozen=True, gc=False):
    region: str
    freshness: Freshness
    health: Health = "ok"
    gateway: Health = "ok"
    operator: OperatorMark | None = None
    share_cap: float | None = None


class DeploymentPlan(Struct, frozen=True, gc=False):
    """One candidate as every replica sees it. Rates are tokens/s, ratios 0..1 unless they say otherwise."""

    region: str
    model: str
    version: str
    state: EngineState = "serving"
    ready_replicas: int = 0
    adapters_loaded: tuple[str, ...] = ()
    adapters_loadable: tuple[str, ...] = ()
    service_ms: float = 0.0
    """Time to first token when not loaded, past its deadband."""
    capacity_tokens_per_s: float = 0.0
    """What it can sustain as it is, quality and freshness included."""
    capacity_well_tokens_per_s: float = 0.0
    """What it sustains when well: weighs home shares, so that a failing home keeps its residents."""
    capacity_source: Literal["configured", "estimated", "median", "none"] = "none"
    quality: float = 1.0
    trim: float = 1.0
    breaker: BreakerState = "closed"
    breaker_until_ms: int | None = None
    breaker_held_in: bool = False
    """It ought to be open; `ejected_capacity_max` keeps it in."""
    retry_after_ms: int | None = None
    """The region asked not to be retried before this time."""
    offered_tokens_per_s: float = 0.0
    """New demand whose home this is."""
    captive_tokens_per_s: float = 0.0
    """The part of it that may go nowhere else."""
    pinned_tokens_per_s: float = 0.0
    headroom_tokens_per_s: float = 0.0
    """What guests may use: overflow_target × capacity × trim − pinned − offered."""
    admit_captive: float = 1.0
    admit_home: float = 1.0
    admit_overflow: tuple[float, ...] = ()
    """By round; a round beyond the last repeats the last, and () is closed."""
    admit_relief: tuple[float, ...] = ()
    """By round: what slow start holds back, given before anything is refused."""
    admit_overload: tuple[float, ...] = ()
    """By round: the first over home shares, the rest over nearness."""
    release: float = 0.0
    """The hashed fraction of pinned sessions that is let go."""

    @property
    def key(self) -> DeploymentKey:
        return DeploymentKey(self.region, self.model, self.version)


class Plan(Struct, frozen=True, gc=False):
    epoch: int
    previous: int
    term: int
    policy: int
    made_at_ms: int
    regions: tuple[RegionPlan, ...]
    deployments: tuple[DeploymentPlan, ...]
    models_served: tuple[str, ...] = ()
    """Every model that any deployment ever served: others are unknown, not merely absent."""
    static: bool = False
    """So much of the fleet went silent at once that the fault is ours: inputs are frozen."""

    def same_content(self, other: Plan) -> bool:
        """Whether nothing published differs: epoch, term and time aside."""
        return structs.replace(self, epoch=0, previous=0, term=0, made_at_ms=0) == structs.replace(
            other, epoch=0, previous=0, term=0, made_at_ms=0
        )
