"""Named checks: a figure of a run, its bound, and whether it holds.

A measure is a function of a record and the check that asks for it. The simulator judges by its own arithmetic: none of
this is shared with the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from msgspec import Struct

from director.sim import figures
from director.sim.measure import Record
from director.sim.scenario import Check

Measure = Callable[[Record, Check], float]
MEASURES: dict[str, Measure] = {}
_SHARE_STEP = 1e-6
"""A share that moves by less did not move: it is the rounding of a sum."""


class CheckResult(Struct, frozen=True):
    name: str
    value: float
    bound: str
    ok: bool


class CheckUnusable(ValueError):
    """The check asks for what the run does not have. The message names the check and what is missing."""


Records = Mapping[str, Mapping[str, Record]]
"""Variant → policy → record."""


def judge(check: Check, variants: Records, variant: str = "") -> CheckResult:
    """Measure and compare. A check of a policy or variant that did not run is unusable."""
    value = _measure(check, variants, variant, check.policy)
    if check.against is not None:
        other = _measure(check, variants, check.against_variant or variant, check.against)
        value = value / other if other else float("inf") if value else 1.0
    if check.at_most is not None:
        bound, ok = f"≤ {check.at_most:g}", value <= check.at_most
    elif check.at_least is not None:
        bound, ok = f"≥ {check.at_least:g}", value >= check.at_least
    else:
        bound, ok = f"= {check.equals:g}", value == check.equals
    return CheckResult(f"{variant}: {check.name}" if variant else check.name, round(value, 6), bound, ok)


def _measure(check: Check, variants: Records, variant: str, policy: str) -> float:
    if variant not in variants:
        raise CheckUnusable(f"check {check.name!r}: no variant {variant!r}; expected one of {', '.join(variants)}")
    records = variants[variant]
    if policy not in records:
        raise CheckUnusable(
            f"check {check.name!r}: policy {policy!r} was not run; expected one of {', '.join(records)}"
        )
    return float(MEASURES[check.measure](records[policy], check))


def measure(function: Measure) -> Measure:
    MEASURES[function.__name__] = function
    return function


def _span(record: Record, check: Check) -> tuple[int, int]:
    until_s = record.seconds if check.until_s is None else min(record.seconds, int(check.until_s))
    return int(check.from_s), until_s


def _demand(record: Record, check: Check) -> str:
    if check.demand is None and len(record.streams) == 1:
        return next(iter(record.streams))
    if check.demand is None:
        raise CheckUnusable(f"check {check.name!r}: expected a demand, since the scenario has several")
    return check.demand


def _demands(record: Record, check: Check) -> list[str]:
    return [check.demand] if check.demand is not None else list(record.streams)


def _regions(record: Record, check: Check) -> list[str]:
    return [check.region] if check.region is not None else list(record.regions)


def _shed(record: Record, check: Check) -> list[float]:
    """The part of the demand that its home (or `region`) does not take, in the window."""
    demand = _demand(record, check)
    first, last = _span(record, check)
    share = figures.share_series(record, demand, check.region or record.homes[demand], new=check.new)
    return [1.0 - value for value in share[first:last]]


def _argument(check: Check, otherwise: float) -> float:
    return otherwise if check.argument is None else check.argument


# -- control --------------------------------------------------------------------------------------------------------


@measure
def settle_s(record: Record, check: Check) -> float:
    """Seconds until the shed share stays within the band round its final value."""
    return float(figures.settle_after(_shed(record, check)))


@measure
def swing_after_settle(record: Record, check: Check) -> float:
    """Greatest less smallest shed share after it settled, over means of `argument` (5) seconds."""
    window = int(_argument(check, figures.WINDOW_S))
    shed = figures.means(_shed(record, check), window)
    return figures.swing_after(shed, figures.settle_after(_shed(record, check)) + window)


@measure
def reversals(record: Record, check: Check) -> float:
    """How often the shed share turned round after moving by `argument` (0.1), over means of a few seconds."""
    return float(figures.reversals(figures.means(_shed(record, check)), _argument(check, 0.1)))


@measure
def home_again_s(record: Record, check: Check) -> float:
    """Seconds until home takes `argument` (0.98) of its demand and keeps doing so."""
    shed = _shed(record, check)
    wanted = 1.0 - _argument(check, 0.98)
    away = [i for i, value in enumerate(figures.means(shed)) if value > wanted + _SHARE_STEP]
    return float(away[-1] + 1 if away else 0)


@measure
def shed_final(record: Record, check: Check) -> float:
    """The mean of the last third of the window."""
    return figures.final_value(_shed(record, check))


@measure
def home_share_min(record: Record, check: Check) -> float:
    """The least share, over means of a few seconds, that home (or `region`) takes of the demand."""
    return 1.0 - max(figures.means(_shed(record, check)))


@measure
def share_change_max(record: Record, check: Check) -> float:
    """The greatest change of any share from one second to the next."""
    first, last = _span(record, check)
    worst = 0.0
    for demand in _demands(record, check):
        for region in record.regions:
            share = figures.share_series(record, demand, region)[first:last]
            worst = max(worst, *(abs(b - a) for a, b in pairwise(share)), 0.0)
    return worst if worst > _SHARE_STEP else 0.0


@measure
def plans(record: Record, check: Check) -> float:
    """Plans written in the window."""
    first, last = _span(record, check)
    return record.plans[last - 1] - (record.plans[first - 1] if first else 0)


@measure
def mutual_overflow_max(record: Record, check: Check) -> float:
    """The greatest share that two regions trade: what each sends the other of its own demand in one second."""
    first, last = _span(record, check)
    worst, names = 0.0, list(record.streams)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            here, there = record.homes[one], record.homes[other]
            if here != there:
                out = figures.share_series(record, one, there)[first:last]
                back = figures.share_series(record, other, here)[first:last]
                worst = max(worst, *(min(a, b) for a, b in zip(out, back, strict=True)))
    return worst


@measure
def split_sigma_max(record: Record, check: Check) -> float:
    """How far one second's new requests into `region` lie from `argument` (half) of them, in standard deviations."""
    demand, (first, last) = _demand(record, check), _span(record, check)
    new, region = record.streams[demand].new, _regions(record, check)[0]
    worst = 0.0
    for second in range(first, last):
        total = sum(counts[second] for counts in new.values())
        worst = max(worst, figures.binomial_sigmas(new[region][second], total, _argument(check, 0.5)))
    return worst


# -- load -----------------------------------------------------------------------------------------------------------


@measure
def utilisation_max(record: Record, check: Check) -> float:
    """Requests inside ÷ slots, at its worst second."""
    first, last = _span(record, check)
    return max(max(record.regions[region].utilisation[first:last]) for region in _regions(record, check))


@measure
def utilisation_mean(record: Record, check: Check) -> float:
    first, last = _span(record, check)
    values = [
        sum(record.regions[region].utilisation[first:last]) / (last - first) for region in _regions(record, check)
    ]
    return sum(values) / len(values)


@measure
def attempts(record: Record, check: Check) -> float:
    """Requests that knocked at the region."""
    first, last = _span(record, check)
    return float(sum(sum(record.regions[region].attempts[first:last]) for region in _regions(record, check)))


@measure
def new_requests(record: Record, check: Check) -> float:
    """Requests decided into the region that no affinity bound."""
    first, last = _span(record, check)
    return float(
        sum(
            sum(record.streams[demand].new[region][first:last])
            for demand in _demands(record, check)
            for region in _regions(record, check)
        )
    )


@measure
def knock_ratio(record: Record, check: Check) -> float:
    """Requests that knocked at `region` for each request of the demand: 1 where all of it went there, and only it."""
    first, last = _span(record, check)
    asked = sum(sum(record.streams[demand].asked[first:last]) for demand in _demands(record, check))
    return attempts(record, check) / asked if asked else 0.0


@measure
def shed_new_ratio(record: Record, check: Check) -> float:
    """The part of the demand's new requests, those that no affinity bound, that went elsewhere in the window."""
    demand, (first, last) = _demand(record, check), _span(record, check)
    new, region = record.streams[demand].new, check.region or record.homes[demand]
    total = sum(sum(counts[first:last]) for counts in new.values())
    return 1.0 - sum(new[region][first:last]) / total if total else 0.0


@measure
def sessions_moved_ratio(record: Record, check: Check) -> float:
    """The part of later turns that left the region of the turn before although nothing was wrong with it."""
    first, last = _span(record, check)
    streams = [record.streams[demand] for demand in _demands(record, check)]
    turns = sum(sum(stream.turns[first:last]) for stream in streams)
    return sum(sum(stream.moved[first:last]) for stream in streams) / turns if turns else 0.0


@measure
def went_ratio(record: Record, check: Check) -> float:
    """The part of the demand's requests that was decided into the region."""
    first, last = _span(record, check)
    went = asked = 0
    for demand in _demands(record, check):
        stream = record.streams[demand]
        asked += sum(stream.asked[first:last])
        went += sum(sum(stream.went[region][first:last]) for region in _regions(record, check))
    return went / asked if asked else 0.0


# -- what users see -------------------------------------------------------------------------------------------------


@measure
def refused_ratio(record: Record, check: Check) -> float:
    return _ratio(record, check, "refused")


@measure
def failed_ratio(record: Record, check: Check) -> float:
    return _ratio(record, check, "failed")


def _ratio(record: Record, check: Check, what: str) -> float:
    first, last = _span(record, check)
    streams = [record.streams[demand] for demand in _demands(record, check)]
    asked = sum(sum(stream.asked[first:last]) for stream in streams)
    return sum(sum(getattr(stream, what)[first:last]) for stream in streams) / asked if asked else 0.0


@measure
def refused_with_headroom(record: Record, check: Check) -> float:
    """Requests refused in seconds in which a permitted region without a fault was below `argument` (0.75) full."""
    first, last = _span(record, check)
    below, count = _argument(check, 0.75), 0
    for demand in _demands(record, check):
        refused = record.streams[demand].refused
        for second in range(first, last):
            if refused[second] and any(
                record.regions[region].utilisation[second] < below
                for region in record.permitted[demand]
                if not _faulty(record, region, second)
            ):
                count += refused[second]
    return float(count)


def _faulty(record: Record, region: str, second: int) -> bool:
    """Whether a fault holds the region, or did so within the last two minutes: slow start is meant."""
    return any(
        region in fault.regions and fault.at_s <= second and (fault.until_s is None or second < fault.until_s + 120.0)
        for fault in record.scenario.faults
    )


@measure
def forbidden(record: Record, check: Check) -> float:
    """Requests that knocked where their tenant's rule forbids."""
    return float(record.forbidden)


@measure
def ttft_s(record: Record, check: Check) -> float:
    """The quantile `argument` (0.9) of time to first token."""
    return figures.quantile(figures.ttft(record, check.demand, *_span(record, check)), _argument(check, 0.9))


@measure
def e2e_s(record: Record, check: Check) -> float:
    """The quantile `argument` (0.95) of the whole request's time."""
    return figures.quantile(figures.e2e(record, check.demand, *_span(record, check)), _argument(check, 0.95))


@measure
def preempted(record: Record, check: Check) -> float:
    """Requests that engines put back for want of KV, in the whole run."""
    return float(record.preempted)


@measure
def prefix_hit_ratio(record: Record, check: Check) -> float:
    """The part of all prompt tokens, in the whole run, that a warm prefix saved."""
    return record.cached_tokens / record.prompt_tokens if record.prompt_tokens else 0.0


@measure
def price_per_mtok(record: Record, check: Check) -> float:
    first, last = _span(record, check)
    tokens = sum(sum(region.tokens[first:last]) for region in record.regions.values())
    return sum(record.cost[first:last]) * 1e6 / tokens if tokens else 0.0


@measure
def reason_ratio(record: Record, check: Check) -> float:
    """The part of answers whose reason is `text`."""
    first, last = _span(record, check)
    asked = found = 0
    for demand in _demands(record, check):
        stream = record.streams[demand]
        asked += sum(stream.asked[first:last])
        found += sum(stream.reasons[check.text or ""][first:last]) if check.text in stream.reasons else 0
    return found / asked if asked else 0.0


# -- the director's own word ----------------------------------------------------------------------------------------


@measure
def events(record: Record, check: Check) -> float:
    """Events of the kind `text`, of `region` where given."""
    from director.sim.fleet import EPOCH_MS

    first, last = _span(record, check)
    return float(
        sum(
            (check.text is None or event.kind == check.text)
            and (check.region is None or event.region == check.region)
            and first <= (event.at_ms - EPOCH_MS) / 1000.0 < last
            for event in record.events
        )
    )


@measure
def mark_max(record: Record, check: Check) -> float:
    """The greatest value of a figure that the policy names itself: `static`, `open/REGION`, `admit_home/REGION` …"""
    return max(_mark(record, check))


@measure
def mark_min(record: Record, check: Check) -> float:
    return min(_mark(record, check))


@measure
def marks_sum_max(record: Record, check: Check) -> float:
    """The greatest sum of all figures whose names begin with `text`: how many breakers are open at once."""
    first, last = _span(record, check)
    found = [values[first:last] for name, values in record.marks.items() if name.startswith(check.text or "")]
    return max(map(sum, zip(*found, strict=True))) if found else 0.0


def _mark(record: Record, check: Check) -> list[float]:
    if check.text not in record.marks:
        raise CheckUnusable(f"check {check.name!r}: no figure {check.text!r}; there are {', '.join(record.marks)}")
    first, last = _span(record, check)
    return list(record.marks[check.text][first:last])
