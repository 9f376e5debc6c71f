"""Arrivals, completions and errors of a deployment, apart, from the rates of its voices' counters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from director.agent.voice import Voice
from director.core.report import Arrived, Completed, Errors

ERROR_KINDS = ("server", "timeout", "throttled", "client")


class Flows(Struct, frozen=True):
    arrived: Arrived | None = None
    completed: Completed | None = None
    errors: Errors | None = None
    origins: dict[str, str] = field(default_factory=dict)

    @property
    def completed_tokens_per_s(self) -> float | None:
        if self.completed is None:
            return None
        parts = (self.completed.prompt_tokens_per_s, self.completed.generation_tokens_per_s)
        return None if None in parts else math.fsum(part for part in parts if part is not None)


def flows_of(awake: Sequence[Voice], voices: Sequence[Voice], *, staged: bool) -> Flows:
    """`awake` speaks for throughput; a picker among `voices` for arrivals and errors.

    With stages apart each request passes both: prompts are counted where they are prefilled, the rest where it ends.
    """
    pickers = [v for v in voices if v.is_picker and v.reading is not None]
    prefill = [v for v in awake if v.stage == "prefill"] if staged else list(awake)
    ending = [v for v in awake if v.stage == "decode"] if staged else list(awake)
    completed, completed_origin = _completed(prefill, ending)
    errors, errors_origin = _errors(ending, pickers)
    arrived, arrived_origin = _arrived(ending, pickers, prefill, completed)
    return Flows(
        arrived,
        completed,
        errors,
        {"arrived": arrived_origin, "completed": completed_origin, "errors_per_s": errors_origin},
    )


def _rate(voices: Iterable[Voice], *names: str) -> tuple[float | None, str]:
    """The summed rate of the first of these counters that each voice has, and which they were."""
    found: list[float] = []
    used: list[str] = []
    for rates in (voice.history.rates() for voice in voices):
        name = None if rates is None else next((name for name in names if name in rates.per_s), None)
        if rates is not None and name is not None:
            found.append(rates.per_s[name])
            used.append(name)
    return (math.fsum(found), " and ".join(sorted(set(used)))) if found else (None, "")


def _completed(prefill: Sequence[Voice], ending: Sequence[Voice]) -> tuple[Completed | None, str]:
    """Tokens as they are worked off. Prompt and generation go together: one without the other would misstate both."""
    requests, _ = _rate(ending, "requests_completed")
    prompt = [_prompt_tokens_per_s(voice) for voice in prefill if voice.history.rates() is not None]
    generation = [_generation_tokens_per_s(voice) for voice in ending if voice.history.rates() is not None]
    known = [found for found in (*prompt, *generation) if found is not None]
    if requests is None and not known:
        return None, "no counters, or only one scrape of them"
    names = " and ".join(sorted({name for _, name in known})) or "requests"
    origin = f"rates of {names} over the last scrapes"
    if len(known) < len(prompt) + len(generation) or not prompt or not generation:
        return Completed(requests), f"{origin}; tokens not known of every replica yet"
    return Completed(requests, _total(prompt), _total(generation)), origin


def _total(parts: Sequence[tuple[float, str] | None]) -> float:
    return math.fsum(part[0] for part in parts if part is not None)


def _prompt_tokens_per_s(voice: Voice) -> tuple[float, str] | None:
    """As prompts are prefilled. Where only finished requests are counted, with those that run more than before."""
    rates = voice.history.rates()
    if rates is None:
        return None
    if "prompt_tokens" in rates.per_s:
        return rates.per_s["prompt_tokens"], "prompt_tokens"
    finished = rates.per_s.get("finished_prompt_tokens")
    if finished is None:
        return None
    if "requests_completed" not in rates.per_s:
        return finished, "finished_prompt_tokens"
    requests = voice.history.moved("requests_completed")
    if requests < 1:
        # Nothing was finished yet: idle, or too early to tell.
        return None if (rates.running_growth_per_s or 0.0) > 0 else (finished, "finished_prompt_tokens")
    mean = voice.history.moved("finished_prompt_tokens") / requests
    more = (rates.running_growth_per_s or 0.0) * mean
    return max(0.0, finished + more), "finished_prompt_tokens and growth of running requests"


def _generation_tokens_per_s(voice: Voice) -> tuple[float, str] | None:
    rates = voice.history.rates()
    if rates is None:
        return None
    if rates.generating_tokens_per_s is not None:
        return rates.generating_tokens_per_s, "the engine's own throughput"
    for name in ("generation_tokens", "finished_generation_tokens"):
        if name in rates.per_s:
            return rates.per_s[name], name
    return None


def _errors(ending: Sequence[Voice], pickers: Sequence[Voice]) -> tuple[Errors | None, str]:
    """The picker sees a request end, whoever ended it. Engine and HTTP server count partly the same failures."""
    for group, origin in ((pickers, "the picker, by error code"), (ending, "the engines, by how requests ended")):
        engine = {kind: _rate(group, f"errors_{kind}")[0] for kind in ERROR_KINDS}
        http = {kind: _rate(group, f"http_errors_{kind}")[0] for kind in ERROR_KINDS}
        by_http = any(rate is not None for rate in http.values())
        if by_http or any(rate is not None for rate in engine.values()):
            most = {kind: max(engine[kind] or 0.0, http[kind] or 0.0) for kind in ERROR_KINDS}
            return Errors(**most), f"{origin}, or by HTTP status where that is more" if by_http else origin
    return None, "nobody counts errors"


def _arrived(
    ending: Sequence[Voice],
    pickers: Sequence[Voice],
    prefill: Sequence[Voice],
    completed: Completed | None,
) -> tuple[Arrived | None, str]:
    """A picker counts arrivals. Without one they are what ended plus what the number in flight grew by.

    What was refused before the engine took it used no tokens, and is no arrival.
    """
    requests, _ = _rate(pickers, "requests_arrived")
    origin = "the picker's requests"
    if requests is None:
        if completed is None or completed.requests_per_s is None:
            return None, "nobody counts requests"
        everyone = {v.target: v for v in (*prefill, *ending)}.values()
        growth = [r.in_flight_growth_per_s or 0.0 for r in (v.history.rates() for v in everyone) if r is not None]
        ended_badly = math.fsum(_rate(ending, f"errors_{kind}")[0] or 0.0 for kind in ("server", "client"))
        requests = max(0.0, completed.requests_per_s + ended_badly + math.fsum(growth))
        origin = "requests that ended + growth of requests in flight"
    tokens = _tokens_per_request(prefill, ending) if requests else 0.0
    return Arrived(requests, None if tokens is None else requests * tokens), f"{origin}; tokens at the minute's mean"


def _tokens_per_request(prefill: Sequence[Voice], ending: Sequence[Voice]) -> float | None:
    requests = math.fsum(v.history.moved("requests_completed") for v in ending)
    if requests < 1:
        return None
    prompt = _moved(prefill, "finished_prompt_tokens", "prompt_tokens")
    generation = _moved(ending, "finished_generation_tokens", "generation_tokens")
    return None if prompt + generation <= 0 else (prompt + generation) / requests


def _moved(voices: Sequence[Voice], *names: str) -> float:
    return math.fsum(next((m for m in map(v.history.moved, names) if m > 0), 0.0) for v in voices)
