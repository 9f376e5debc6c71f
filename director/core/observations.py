"""What `step` is told: the newest report of each region, demand, operators' settings, probes and outcomes.

Times are milliseconds of the database's clock.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from director.core.report import Report
from director.core.request import RouteKey


class ReceivedReport(Struct, frozen=True):
    """A region's newest report. `received_at_ms` is the database's time at receipt, never the reporter's."""

    region: str
    received_at_ms: int
    report: Report


class DeploymentTokens(Struct, frozen=True):
    region: str
    version: str
    tokens: float


class RouteDemand(Struct, frozen=True):
    """What one replica decided for one route in one span.

    `new_tokens` is the demand that could go anywhere the policy allows; `pinned` is what affinity tokens claimed, by
    the region they named; `decided` is where all of it went.
    """

    route: RouteKey
    requests: int
    new_tokens: float
    pinned: tuple[DeploymentTokens, ...] = ()
    decided: tuple[DeploymentTokens, ...] = ()


class DemandSample(Struct, frozen=True):
    """One replica's demand over `span_ms` ending at `at_ms`."""

    replica: str
    at_ms: int
    span_ms: int
    routes: tuple[RouteDemand, ...]


class OperatorSetting(Struct, frozen=True):
    """What an operator set on a region. It wins over observation until it ends."""

    region: str
    kind: Literal["drain", "down", "cap"]
    who: str
    reason: str
    set_at_ms: int
    deadline_ms: int | None = None
    """Drain: until then affinity tokens still enter. None: no deadline, sessions may stay as long as they like."""
    share: float | None = None
    """Cap: the greatest share of any route's traffic."""


class ProbeResult(Struct, frozen=True):
    """One replica's own HTTP probe of a region's gateway."""

    replica: str
    region: str
    at_ms: int
    ok: bool


OutcomeClass = Literal["ok", "server", "timeout", "connect", "throttled", "client"]


class Outcome(Struct, frozen=True):
    """Requests that an L7 saw end, by class. `reporter` is one witness."""

    reporter: str
    region: str
    model: str
    version: str
    outcome: OutcomeClass
    count: int
    retry_after_s: float | None = None


class Observations(Struct, frozen=True):
    """Everything that came in since the last step. `reports` holds the newest of every region, old ones included."""

    reports: tuple[ReceivedReport, ...] = ()
    demand: tuple[DemandSample, ...] = ()
    operators: tuple[OperatorSetting, ...] = ()
    probes: tuple[ProbeResult, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    policy_version: int = 0
    outage_ms: int = 0
    """How long the database could not take reports since the last step: no region ages by it."""
