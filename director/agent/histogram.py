"""Quantiles from summed histogram buckets. Averaging replicas' quantiles would let an idle replica halve the figure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable

from director.agent.reading import CumulativeBuckets


def grown(now: CumulativeBuckets, before: CumulativeBuckets | None) -> CumulativeBuckets:
    """What was observed since `before`; all of it when that is None (a process that began since then)."""
    if before is None:
        return now
    earlier = dict(before)
    return tuple((bound, max(0.0, count - earlier.get(bound, 0.0))) for bound, count in now)


def summed(histograms: Iterable[CumulativeBuckets]) -> CumulativeBuckets:
    """Adds cumulative counts. Where bounds differ, as between two releases, counts are interpolated at the missing."""
    whole = [h for h in histograms if h]
    bounds = sorted({bound for h in whole for bound, _ in h})
    return tuple((bound, math.fsum(_count_at(h, bound) for h in whole)) for bound in bounds)


def quantile_s(buckets: CumulativeBuckets, q: float) -> float | None:
    """The q-quantile, linear within its bucket; the greatest finite bound when it lies above; None without counts."""
    total = buckets[-1][1] if buckets else 0.0
    if total <= 0:
        return None
    rank = q * total
    below_bound, below_count = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank and count > below_count:
            if math.isinf(bound):
                return below_bound
            return below_bound + (bound - below_bound) * (rank - below_count) / (count - below_count)
        if not math.isinf(bound):
            below_bound, below_count = bound, count
    return below_bound


def _count_at(buckets: CumulativeBuckets, bound: float) -> float:
    at = bisect_right(buckets, bound, key=lambda entry: entry[0])
    if at and (buckets[at - 1][0] == bound or at == len(buckets)):
        return buckets[at - 1][1]
    low_bound, low_count = buckets[at - 1] if at else (0.0, 0.0)
    high_bound, high_count = buckets[at]
    if math.isinf(high_bound):
        return low_count
    return low_count + (high_count - low_count) * (bound - low_bound) / (high_bound - low_bound)
