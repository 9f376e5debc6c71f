"""Where demand meets capacity for one tick: a room is a deployment, a flow is what routes ask for."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from director.core.filling import UNKNOWN, Filling
from director.core.plan import DeploymentKey
from director.core.rounds import Lane


class Room(Struct):
    """One deployment while its admissions are worked out. Tokens/s, as the region counts them."""

    key: DeploymentKey
    capacity: float
    """Quality and trim included."""
    usable: bool
    """No filter that holds for everybody drops it."""
    fresh: bool
    trial_ratio: float | None
    """Half-open: the fraction it may take. None: closed."""
    pinned: float
    kappa: float
    admit_home_before: float
    """Where slow start climbs from."""
    guest_gate: float
    admit_rise_max: float
    capacity_well: float = 0.0
    capacity_now: float = 0.0
    """As published: without the trim."""
    filling: Filling = UNKNOWN
    """The slots in use by now."""
    guessed: bool = False
    """Its capacity was never measured or configured, nor that of any other of its model."""
    life_s: float = 0.0
    """How long a request stays."""
    foreseen: float = 0.0
    """Published demand × shares, in estimated tokens/s: what decisions come to here, without the chance of a pick."""
    share_max: float = 1.0
    """An operator's cap on any route."""
    free: float = 0.0
    """What the stage at hand may still give."""
    weight: float = 0.0
    """What it counts for among those that the stage offers to; 0: it takes nothing."""
    want: float = 0.0
    """What the round at hand offers."""
    asked: bool = False
    """Whether it offers anything."""
    ratio: float = 0.0
    """The fraction of it that fits."""
    history: list[float] = []
    """The fraction that each round of the stage at hand took."""
    offered: float = 0.0
    captive: float = 0.0
    taken: float = 0.0
    release: float = 0.0
    admit_captive: float = 1.0
    admit_home_raw: float = 1.0
    """Before pace."""
    admit_home: float = 1.0
    headroom: float = 0.0
    admit_overflow: tuple[float, ...] = ()
    admit_relief: tuple[float, ...] = ()
    admit_overload: tuple[float, ...] = ()


class Flow(Struct):
    """Demand on its way to somewhere, of all routes that rank the same regions alike: whatever happens to one happens
    to all. `rooms` stand by position in the lane, nearest first.
    """

    demand: float
    """New demand, estimated tokens/s."""
    captive: bool
    share_overload: float
    """The part of what is still wanted whose tenants would rather overload a region than be refused."""
    lane: Lane
    rooms: list[Room]
    demand_now: float = inf
    """Where it is less, demand has clearly fallen, though that is not published: nobody is refused for what is over."""
    published: float = 0.0
    """`demand` as it was before any stage took from it."""
