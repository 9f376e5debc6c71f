"""What the world asks of a policy under comparison: choose a region, and be told what happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from director.core.events import Event
from director.core.observations import OperatorSetting, Outcome, ProbeResult, ReceivedReport
from director.sim.world.demand import Stream


class Ask(NamedTuple):
    """One question. `client` is what the answer hangs on: the stream, and whether DNS asks for many clients at once."""

    stream: Stream
    key: str
    tokens: float
    """As the caller estimates them."""
    affinity: str | None = None
    region_before: str | None = None
    """Where the session's last turn went: the stickiness of policies that know no tokens."""
    exclude: tuple[str, ...] = ()
    dns: bool = False


class Choice(NamedTuple):
    """`region` None is a refusal."""

    region: str | None
    reason: str
    shares: Mapping[str, float]
    """Expected shares of requests like this one; what is missing to 1 is refused."""
    fallbacks: tuple[str, ...] = ()
    affinity: str | None = None


class Inputs(NamedTuple):
    """What came in since the last tick. `reports` holds the newest of every region."""

    now_ms: int
    reports: Mapping[str, ReceivedReport]
    outcomes: tuple[Outcome, ...]
    probes: tuple[ProbeResult, ...]
    operators: tuple[OperatorSetting, ...]


class Steering(Protocol):
    name: str
    events: list[Event]
    plans: int
    """How many times something published changed."""

    def choose(self, ask: Ask, now_ms: int) -> Choice:
        """Answer a request."""

    def flush(self, now_ms: int) -> None:
        """A second ended: replicas send their demand."""

    def tick(self, inputs: Inputs) -> None:
        """The control path runs."""

    def marks(self) -> dict[str, float]:
        """Named figures of this moment, for the record."""
