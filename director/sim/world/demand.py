"""Who asks, when, and for how much: streams of arrivals, sessions of several turns, token estimates."""

from __future__ import annotations

from math import cos, log, pi, sqrt
from random import Random

from director.sim.scenario import Demand, Lengths
from director.sim.world.lengths import PRESETS, LengthPool
from director.sim.world.trace import TraceArrivals

_SESSIONS_COMPACT = 4096


class Session:
    """A conversation. `token` is the affinity token of its newest answer."""

    __slots__ = ("begun_s", "key", "number", "region", "token")

    def __init__(self, number: int, key: str, begun_s: float) -> None:
        self.number = number
        self.key = key
        self.begun_s = begun_s
        self.token: str | None = None
        self.region: str | None = None
        """Where its last turn went."""


class SessionPool:
    """Sessions begun within `life_s`. A later turn belongs to any of them with equal probability.

    Demand stays what the scenario says whatever becomes of the sessions: that is what makes a step with most of its
    traffic pinned a step, instead of a slow growth of conversations.
    """

    def __init__(self, later_turns: float, life_s: float, random: Random) -> None:
        self._later_turns = later_turns
        self._life_s = life_s
        self._random = random
        self._sessions: list[Session] = []
        self._head = 0

    def turn(self, now_s: float) -> Session | None:
        """The session that this arrival continues; None: it begins one."""
        sessions, head = self._sessions, self._head
        while head < len(sessions) and sessions[head].begun_s < now_s - self._life_s:
            head += 1
        if head > _SESSIONS_COMPACT:
            del sessions[:head]
            head = 0
        self._head = head
        if head >= len(sessions) or self._random.random() >= self._later_turns:
            return None
        return sessions[head + int(self._random.random() * (len(sessions) - head))]

    def begin(self, session: Session) -> None:
        self._sessions.append(session)


class Stream:
    """One demand of the scenario, drawn second by second from random streams of its own."""

    def __init__(self, name: str, index: int, demand: Demand, unit_per_s: float, seed: str) -> None:
        """`unit_per_s`: the requests/s that one level stands for."""
        self.name = name
        self.index = index
        self.demand = demand
        self._unit_per_s = unit_per_s
        self._arrivals = Random(f"{seed}/{name}/arrivals")
        self._burst = Random(f"{seed}/{name}/bursts")
        self._choice = Random(f"{seed}/{name}/choice")
        self._lengths = pool_of(demand, seed, name).pairs
        self._burst_level = 1.0
        self._burst_until_s = 0.0
        self._steps = list(demand.steps or ())
        self._trace = TraceArrivals(demand.trace) if demand.trace is not None else None
        self._estimates = _estimate_factors(demand, Random(f"{seed}/{name}/estimates"))
        self._drawn = 0
        sessions = demand.sessions
        self.pool = (
            SessionPool(sessions.later_turns, sessions.life_s, Random(f"{seed}/{name}/sessions")) if sessions else None
        )

    def rate_per_s(self, at_s: float) -> float:
        """Requests/s without bursts; the mean of a trace is not foreseen, so 0 there."""
        level = 0.0
        if self.demand.diurnal is not None:
            wave = self.demand.diurnal
            turn = 2.0 * pi * (at_s - wave.peak_at_s) / wave.period_s
            level = max(0.0, wave.level * (1.0 + wave.amplitude * cos(turn)))
        else:
            for from_s, value in self._steps:
                if at_s >= from_s:
                    level = value
        return level * self._unit_per_s

    def arrivals(self, second: int) -> list[float]:
        """The times of this second's arrivals, ascending."""
        if self._trace is not None:
            return self._trace.times(second)
        rate = self.rate_per_s(second) * self._burst_at(second)
        if rate <= 0.0:
            return []
        times, at_s, draw = [], float(second), self._arrivals.random
        while (at_s := at_s - log(1.0 - draw()) / rate) < second + 1:
            times.append(at_s)
        return times

    def next_lengths(self) -> tuple[float, float]:
        """(prompt, generated) tokens of the next request."""
        if self._trace is not None:
            return self._trace.lengths()
        self._drawn += 1
        return self._lengths[int(self._choice.random() * len(self._lengths))]

    def estimate(self, tokens: float) -> float:
        """What the caller believes this request needs."""
        factors = self._estimates
        return tokens * factors[self._drawn % len(factors)]

    def _burst_at(self, second: int) -> float:
        bursts = self.demand.bursts
        if bursts is None:
            return 1.0
        if second >= self._burst_until_s:
            shape = 1.0 / bursts.cv**2
            self._burst_level = self._burst.gammavariate(shape, 1.0 / shape)
            self._burst_until_s = second + bursts.every_s
        return self._burst_level


def pool_of(demand: Demand, seed: str, name: str) -> LengthPool:
    lengths = demand.lengths if isinstance(demand.lengths, Lengths) else PRESETS[demand.lengths]
    return LengthPool(lengths, Random(f"{seed}/{name}/lengths"))


def _estimate_factors(demand: Demand, random: Random) -> list[float]:
    estimates = demand.estimates
    if estimates.cv == 0.0:
        return [estimates.ratio]
    sigma = sqrt(log(1.0 + estimates.cv**2))
    return [estimates.ratio * random.lognormvariate(-(sigma**2) / 2.0, sigma) for _ in range(1021)]
