"""Who asks for what, and when: conversations whose lengths and bursts follow a public trace of a chat service.

The figures are those of the Azure LLM inference trace of 2023, conversation part (AzurePublicDataset, CC-BY): 19,366
requests in 58 minutes, mean 1,155 tokens of context and 211 generated; requests a second vary 1.4 times as much as a
Poisson stream's would.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from random import Random

from msgspec import Struct

from director.demo.layout import ADAPTER, AUDIENCES, DAY_S, PEAK_AT, PEAK_RATIO, Audience

Quantiles = tuple[tuple[float, float], ...]
CONTEXT_TOKENS: Quantiles = (
    (0.0, 2), (0.01, 29), (0.05, 181), (0.1, 207), (0.2, 387), (0.3, 403), (0.4, 703), (0.5, 1020), (0.6, 1071),
    (0.7, 1130), (0.8, 1315), (0.85, 1877), (0.9, 2735), (0.95, 4083), (0.99, 4142), (0.999, 6212), (1.0, 14050),
)  # fmt: skip
GENERATED_TOKENS: Quantiles = (
    (0.0, 7), (0.01, 16), (0.05, 41), (0.1, 54), (0.2, 77), (0.3, 91), (0.4, 103), (0.5, 129), (0.6, 177),
    (0.7, 384), (0.8, 400), (0.85, 411), (0.9, 424), (0.95, 451), (0.99, 601), (0.999, 954), (1.0, 1000),
)  # fmt: skip

BURST_SHAPE = 14.0
"""Shape of the gamma factor on each second's rate: at 5.5 requests a second it gives the trace's variance."""
CONTINUES_RATIO = 0.6
"""Requests that are another turn of a conversation, where one is waiting: two and a half turns each, on average."""
TURN_PAUSE_S = 4.0
"""The quickest next turn of a conversation after its last answer."""
SESSIONS_MAX = 400
"""Conversations that an audience keeps open; the oldest is forgotten."""


class Session(Struct):
    """One conversation, and the affinity token it was last given."""

    id: str
    client_ip: str
    adapter: str | None
    affinity: str | None = None
    answered_s: float = 0.0


class Ask(Struct, frozen=True):
    """One request about to be made."""

    audience: Audience
    session: Session
    prompt_tokens: int
    generate_tokens: int


class Workload:
    """The same seed gives the same requests, if sessions are handed back at the same times."""

    def __init__(self, seed: int, audiences: Sequence[Audience] = AUDIENCES) -> None:
        self._random = Random(seed)
        self._audiences = audiences
        self._open: dict[int, deque[Session]] = {i: deque(maxlen=SESSIONS_MAX) for i in range(len(audiences))}
        self._sessions = 0
        self._run = f"{self._random.getrandbits(32):08x}"

    def second(self, at_s: float, weight_s: float = 1.0) -> Iterator[tuple[float, Ask]]:
        """Requests of the span that begins at `at_s` and lasts `weight_s`, each with its offset within the span."""
        bursts = {zone: self._random.gammavariate(BURST_SHAPE, 1.0 / BURST_SHAPE) for zone in PEAK_AT}
        found = []
        for i, audience in enumerate(self._audiences):
            mean = rate_per_s(audience, at_s) * bursts.get(audience.zone, 1.0) * weight_s
            found += [(self._random.random() * weight_s, i) for _ in range(_poisson(self._random, mean))]
        for offset_s, i in sorted(found):
            yield offset_s, self._ask(i, at_s + offset_s)

    def give_back(self, ask: Ask, affinity: str | None, now_s: float) -> None:
        """The conversation has its answer and may go on."""
        ask.session.affinity = affinity
        ask.session.answered_s = now_s
        self._open[self._audiences.index(ask.audience)].append(ask.session)

    def _ask(self, i: int, at_s: float) -> Ask:
        audience, waiting = self._audiences[i], self._open[i]
        session = None
        if waiting and at_s - waiting[0].answered_s >= TURN_PAUSE_S and self._random.random() < CONTINUES_RATIO:
            session = waiting.popleft()
        if session is None:
            session = self._new_session(audience)
        return Ask(audience, session, int(self._draw(CONTEXT_TOKENS)), int(self._draw(GENERATED_TOKENS)))

    def _new_session(self, audience: Audience) -> Session:
        self._sessions += 1
        low, high = audience.third_octets
        address = f"{audience.network}.{self._random.randint(low, high)}.{self._random.randint(1, 254)}"
        adapter = ADAPTER if self._random.random() < audience.adapter_share else None
        return Session(f"conv-{self._run}-{self._sessions}", address, adapter)

    def _draw(self, quantiles: Quantiles) -> float:
        return value_at(quantiles, self._random.random())


def rate_per_s(audience: Audience, at_s: float) -> float:
    """The audience's rate at a moment of the demo's day."""
    phase = 2.0 * math.pi * (at_s / DAY_S - PEAK_AT.get(audience.zone, 0.0))
    return audience.requests_per_s * (1.0 + PEAK_RATIO * math.cos(phase))


def value_at(quantiles: Quantiles, q: float) -> float:
    """Linear between the given quantiles."""
    at = min(bisect_right(quantiles, q, key=lambda entry: entry[0]), len(quantiles) - 1)
    (low_q, low), (high_q, high) = quantiles[at - 1], quantiles[at]
    return low + (high - low) * (q - low_q) / (high_q - low_q)


def _poisson(random: Random, mean: float) -> int:
    """Knuth's method: the means here are a few requests."""
    limit, count, product = math.exp(-mean), 0, random.random()
    while product > limit:
        count += 1
        product *= random.random()
    return count
