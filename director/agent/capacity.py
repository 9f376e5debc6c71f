"""What a deployment sustains: configured per replica, or estimated from completions at known utilisation.

A batching engine that is half empty looks fast for each request it runs. So only samples at high occupancy may raise
the estimate, samples above half may lower it, and emptier ones say nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from director.core.report import CapacitySource

OCCUPANCY_RAISES = 0.8
OCCUPANCY_LOWERS = 0.5
SMOOTHING_S = 60.0
"""A minute of completions: longer than a request takes, shorter than a scale-up."""


class Capacity(NamedTuple):
    tokens_per_s: float | None
    source: CapacitySource | None
    why: str


class CapacityEstimate:
    """The tokens/s of one ready replica when full. One for each deployment."""

    def __init__(self) -> None:
        self._replica_tokens_per_s: float | None = None
        self._at_s: float | None = None

    def see(self, completed_tokens_per_s: float, occupancy: float, ready: int, at_s: float) -> None:
        elapsed_s = 0.0 if self._at_s is None else at_s - self._at_s
        self._at_s = at_s
        if ready <= 0 or occupancy < OCCUPANCY_LOWERS or completed_tokens_per_s <= 0:
            return
        sample = completed_tokens_per_s / min(1.0, occupancy) / ready
        held = self._replica_tokens_per_s
        if occupancy < OCCUPANCY_RAISES and (held is None or sample > held):
            return
        if held is None:
            self._replica_tokens_per_s = sample
            return
        weight = 1.0 - math.exp(-elapsed_s / SMOOTHING_S)
        self._replica_tokens_per_s = held + weight * (sample - held)

    def capacity(self, ready: int, configured_replica_tokens_per_s: float | None) -> Capacity:
        if ready <= 0:
            return Capacity(0.0, "configured" if configured_replica_tokens_per_s else "estimated", "no ready replica")
        if configured_replica_tokens_per_s is not None:
            return Capacity(configured_replica_tokens_per_s * ready, "configured", f"configured × {ready} ready")
        if self._replica_tokens_per_s is None:
            return Capacity(None, None, f"not seen above {OCCUPANCY_RAISES:.0%} occupancy yet")
        return Capacity(self._replica_tokens_per_s * ready, "estimated", f"completions ÷ occupancy × {ready} ready")
