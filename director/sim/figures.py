"""Figures of a run: series by second, quantiles, and the few numbers that say whether a control loop settled."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from director.sim.measure import Record

BAND_RATIO = 0.10
"""Settled: within a tenth of the final value…"""
BAND_MIN = 0.03
"""…or within three points of it, where the final value is small."""
WINDOW_S = 5


def share_series(record: Record, demand: str, region: str, *, new: bool = False) -> list[float]:
    """The expected share of the demand's requests that enter the region, by second; a quiet second repeats the last.

    `new`: of those that no affinity bound.
    """
    stream, out, last = record.streams[demand], [], 0.0
    shares = stream.expected_new[region] if new else stream.expected[region]
    for asked, bound, expected in zip(stream.asked, stream.bound, shares, strict=True):
        counted = asked - bound if new else asked
        last = expected / counted if counted else last
        out.append(last)
    return out


def refused_series(record: Record, demand: str) -> list[float]:
    stream = record.streams[demand]
    return [refused / asked if asked else 0.0 for asked, refused in zip(stream.asked, stream.refused, strict=True)]


def means(series: Sequence[float], window: int = WINDOW_S) -> list[float]:
    """Means over the `window` values that end at each."""
    out, total = [], 0.0
    for i, value in enumerate(series):
        total += value
        if i >= window:
            total -= series[i - window]
        out.append(total / min(i + 1, window))
    return out


def final_value(series: Sequence[float]) -> float:
    """The mean of the last third."""
    last = series[len(series) * 2 // 3 :]
    return sum(last) / len(last)


def settle_after(series: Sequence[float]) -> int:
    """Index of the first value from which a window's worth stays within the band round the final value; the length
    where none does."""
    final = final_value(series)
    band = max(BAND_RATIO * abs(final), BAND_MIN)
    near = [abs(value - final) <= band for value in series]
    for i in range(len(series)):
        window = near[i : i + WINDOW_S]
        if near[i] and sum(window) >= len(window) - 1:
            return i
    return len(series)


def swing_after(series: Sequence[float], start: int) -> float:
    """Greatest less smallest from `start` on."""
    rest = series[start:]
    return max(rest) - min(rest) if rest else 1.0


def reversals(series: Sequence[float], amplitude: float) -> int:
    """How often the series turned round after moving by at least `amplitude`."""
    turns, direction, extreme = 0, 0, series[0] if series else 0.0
    for value in series:
        if (direction >= 0 and value > extreme) or (direction <= 0 and value < extreme):
            if direction == 0 and abs(value - extreme) >= amplitude:
                direction = 1 if value > extreme else -1
                extreme = value
            elif direction != 0:
                extreme = value
        elif direction != 0 and abs(value - extreme) >= amplitude:
            turns += 1
            direction, extreme = -direction, value
    return turns


def quantile(values: Sequence[float], q: float) -> float:
    """By rank; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def ttft(record: Record, demand: str | None, from_s: float, until_s: float) -> list[float]:
    """First-token times, seconds, of requests that arrived in the window."""
    return _timed(record, demand, from_s, until_s, "arrived_s", "ttft_s")


def e2e(record: Record, demand: str | None, from_s: float, until_s: float) -> list[float]:
    return _timed(record, demand, from_s, until_s, "done_arrived_s", "e2e_s")


def _timed(record: Record, demand: str | None, from_s: float, until_s: float, when: str, what: str) -> list[float]:
    streams = record.streams.values() if demand is None else (record.streams[demand],)
    return [
        value
        for stream in streams
        for at_s, value in zip(getattr(stream, when), getattr(stream, what), strict=True)
        if from_s <= at_s < until_s
    ]


def binomial_sigmas(hits: int, of: int, share: float) -> float:
    """How many standard deviations a count lies from its mean."""
    return abs(hits - of * share) / sqrt(of * share * (1.0 - share)) if of and 0.0 < share < 1.0 else 0.0


def summary(record: Record) -> dict[str, float]:
    """The figures that every policy is compared by."""
    total = max(1, record.requests)
    streams = record.streams.values()
    home = sum(sum(stream.went.get(record.homes[name], ())) for name, stream in record.streams.items())
    asked_tokens = sum(sum(region.tokens) for region in record.regions.values())
    first, last = ttft(record, None, 0.0, record.seconds), e2e(record, None, 0.0, record.seconds)
    return {
        "requests": record.requests,
        "refused_ratio": sum(sum(each.refused) for each in streams) / total,
        "failed_ratio": sum(sum(each.failed) for each in streams) / total,
        "lost": record.lost,
        "forbidden": record.forbidden,
        "home_ratio": home / total,
        "ttft_s_p50": quantile(first, 0.5),
        "ttft_s_p90": quantile(first, 0.9),
        "ttft_s_p99": quantile(first, 0.99),
        "e2e_s_p50": quantile(last, 0.5),
        "e2e_s_p95": quantile(last, 0.95),
        "reversals": sum(_reversals(record, demand) for demand in record.streams),
        "utilisation_max": max(max(region.utilisation) for region in record.regions.values()),
        "tokens_per_s": asked_tokens / record.seconds,
        "price_per_mtok": sum(record.cost) * 1e6 / asked_tokens if asked_tokens else 0.0,
        "prefix_hit_ratio": record.cached_tokens / record.prompt_tokens if record.prompt_tokens else 0.0,
        "preempted": record.preempted,
        "plans": record.plans[-1] if record.plans else 0,
        "events": len(record.events),
        "wall_s": round(record.wall_s, 3),
    }


def _reversals(record: Record, demand: str) -> int:
    """Turns of the share that home takes, after moves of a tenth: what a ringing controller makes many of."""
    return reversals(share_series(record, demand, record.homes[demand]), 0.1) if record.homes[demand] else 0
