"""The circuit breaker of one deployment: closed → open → half-open → closed.

What counts as a failure: 5xx other than 503, timeouts, refused connections. Client errors never; 429 and 503 are
backpressure and lower the quality instead. Failures accumulate through interleaved successes: only a run of
`successes_to_forget` of them clears the count, so a deployment that fails every second request does go down.

Who says so matters. The region's own figures are one witness that suffices. Outcomes from L7s open it only when two
reporters agree, for one partitioned L7 must not close a region for everyone. Probes are reporters like them.

Open periods grow by doubling with a jitter that is derived from the deployment's name, so that every planner computes
the same. Half-open lets a trial fraction through; enough successes close it, any failure opens it again for longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, structs

from director.core.errors import ImpossibleTransition
from director.core.pick import salt, unit
from director.core.plan import BreakerState
from director.core.policy import Breaker

BreakerEvent = Literal["tripped", "period_ended", "trial_failed", "trials_passed"]

BREAKER_TRANSITIONS: Mapping[tuple[BreakerState, BreakerEvent], BreakerState] = {
    ("closed", "tripped"): "open",
    ("open", "period_ended"): "half_open",
    ("half_open", "trial_failed"): "open",
    ("half_open", "trials_passed"): "closed",
}

OWN_FIGURES = ""
"""The witness that is the region itself."""
WITNESSES_MAX = 64
"""Reporters remembered per deployment; the quietest goes first."""


class Tally(Struct, frozen=True, array_like=True, gc=False):
    """What one witness saw: accumulated failures, and the successes since the last of them."""

    witness: str
    failures: float = 0.0
    run: float = 0.0


class BreakerMemory(Struct, frozen=True, array_like=True, gc=False):
    state: BreakerState = "closed"
    until_ms: int = 0
    """End of the open period."""
    opens: int = 0
    """Open periods in a row, for the back-off."""
    closed_at_ms: int = 0
    trial_successes: float = 0.0
    held_in: bool = False
    """Would open, but too much of the model's capacity is out already."""
    tallies: tuple[Tally, ...] = ()


class Seen(Struct, frozen=True, gc=False):
    """What one witness saw since the last step."""

    witness: str
    failures: float
    successes: float
    retry_after_s: float | None = None


def after(state: BreakerState, event: BreakerEvent) -> BreakerState:
    """The table, asked. An impossible pair raises and changes nothing."""
    try:
        return BREAKER_TRANSITIONS[state, event]
    except KeyError:
        raise ImpossibleTransition(f"a breaker that is {state} cannot be {event}") from None


def observe(memory: BreakerMemory, seen: Sequence[Seen], settings: Breaker, name: str, now_ms: int) -> BreakerMemory:
    """Take what witnesses saw, and time. It opens nothing: see `wants_to_open`, which the ejection cap may overrule."""
    if memory.state == "open":
        memory = _extend(memory, seen, now_ms)
        if now_ms >= memory.until_ms:
            return structs.replace(
                memory, state=after("open", "period_ended"), trial_successes=0.0, tallies=(), held_in=False
            )
        return memory
    tallies = _tally(memory.tallies, seen, settings)
    if memory.state == "closed":
        memory = _forget_opens(memory, settings, now_ms)
        return structs.replace(memory, tallies=tallies) if tallies != memory.tallies else memory
    if _agreed(tallies, threshold=1.0):
        return trip(structs.replace(memory, tallies=()), "trial_failed", seen, settings, name, now_ms)
    successes = memory.trial_successes + sum(s.successes for s in seen)
    if successes >= settings.successes_to_close:
        return structs.replace(
            memory, state=after("half_open", "trials_passed"), closed_at_ms=now_ms, trial_successes=0.0, tallies=()
        )
    return structs.replace(memory, trial_successes=successes, tallies=tallies)


def is_calm(memory: BreakerMemory) -> bool:
    """Closed, with nothing held against it: successes and time change nothing."""
    return memory.state == "closed" and not memory.tallies and not memory.opens


def wants_to_open(memory: BreakerMemory, settings: Breaker) -> bool:
    """Closed, with enough failures in the eyes of the region itself or of two reporters."""
    return memory.state == "closed" and _agreed(memory.tallies, settings.failures_to_open)


def trip(
    memory: BreakerMemory, event: BreakerEvent, seen: Sequence[Seen], settings: Breaker, name: str, now_ms: int
) -> BreakerMemory:
    """Open, for a period that grows with each one in a row."""
    opens = memory.opens + 1
    opened = BreakerMemory(
        state=after(memory.state, event),
        until_ms=now_ms + round(1000 * open_period_s(opens, settings, name)),
        opens=opens,
    )
    return _extend(opened, seen, now_ms)


def open_period_s(opens: int, settings: Breaker, name: str) -> float:
    """open_s · 2^(opens - 1), to a maximum, times 0.9 to 1.1 by the deployment's name; longer each time until then."""
    period_s = min(settings.open_s * 2.0 ** min(opens - 1, 32), settings.open_s_max)
    return period_s * (0.9 + 0.2 * unit(salt(name), salt("open period")))


def _tally(tallies: tuple[Tally, ...], seen: Sequence[Seen], settings: Breaker) -> tuple[Tally, ...]:
    if len(seen) == 1 and (not tallies or (len(tallies) == 1 and tallies[0].witness == seen[0].witness)):
        # As a rule there is but one witness, the region itself.
        only = _count(tallies[0] if tallies else Tally(seen[0].witness), seen[0], settings.successes_to_forget)
        return (only,) if only.failures > 0 else ()
    by_witness = {tally.witness: tally for tally in tallies}
    for s in seen:
        tally = by_witness.get(s.witness, Tally(s.witness))
        by_witness[s.witness] = _count(tally, s, settings.successes_to_forget)
    kept = [t for t in by_witness.values() if t.failures > 0]
    kept.sort(key=lambda t: (-t.failures, t.witness))
    return tuple(kept[:WITNESSES_MAX])


def _count(tally: Tally, seen: Seen, successes_to_forget: int) -> Tally:
    """Failures and successes of one batch, taken as evenly interleaved."""
    if seen.failures <= 0:
        run = tally.run + seen.successes
        return Tally(tally.witness, 0.0 if run >= successes_to_forget else tally.failures, run)
    run = seen.successes / seen.failures
    # Runs long enough to forget between any two failures leave only what the last of them left.
    failures = min(1.0, seen.failures) if run >= successes_to_forget else tally.failures + seen.failures
    return Tally(tally.witness, failures, run)


def _agreed(tallies: tuple[Tally, ...], threshold: float) -> bool:
    """The region's own figures reach the threshold, or those of two reporters do, each with at least half of it."""
    if sum([tally.failures for tally in tallies]) < threshold:
        return False
    others = []
    for tally in tallies:
        if tally.witness == OWN_FIGURES:
            if tally.failures >= threshold:
                return True
        elif tally.failures >= threshold / 2:
            others.append(tally.failures)
    return len(others) >= 2 and sum(others) >= threshold


def _extend(memory: BreakerMemory, seen: Sequence[Seen], now_ms: int) -> BreakerMemory:
    """A failure that asks for a later deadline extends the period; an earlier one does not shorten it."""
    asked_ms = max(
        (now_ms + round(1000 * s.retry_after_s) for s in seen if s.retry_after_s and s.failures > 0), default=0
    )
    return structs.replace(memory, until_ms=asked_ms) if asked_ms > memory.until_ms else memory


def _forget_opens(memory: BreakerMemory, settings: Breaker, now_ms: int) -> BreakerMemory:
    """A breaker that has stayed closed for the longest open period starts its back-off anew."""
    if memory.opens and now_ms - memory.closed_at_ms >= 1000 * settings.open_s_max:
        return structs.replace(memory, opens=0)
    return memory
