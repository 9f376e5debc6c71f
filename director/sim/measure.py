"""What a run leaves behind: figures per second, and every request's times. Checks and plots are made from it."""

from __future__ import annotations

from array import array

from director.core.events import Event
from director.sim.scenario import Scenario


class StreamRecord:
    """One demand, by second of arrival."""

    def __init__(self, seconds: int, regions: tuple[str, ...]) -> None:
        self.asked = array("l", [0]) * seconds
        self.refused = array("l", [0]) * seconds
        self.failed = array("l", [0]) * seconds
        """Answered, and then no attempt was served."""
        self.expected = {region: array("d", [0.0]) * seconds for region in regions}
        """Sum over requests of the probability that each went to the region: shares without the dice."""
        self.expected_new = {region: array("d", [0.0]) * seconds for region in regions}
        """The same over requests that no affinity bound."""
        self.bound = array("l", [0]) * seconds
        """Requests that an affinity bound."""
        self.went = {region: array("l", [0]) * seconds for region in regions}
        self.new = {region: array("l", [0]) * seconds for region in regions}
        """The part of `went` that no affinity bound."""
        self.turns = array("l", [0]) * seconds
        """Later turns of sessions."""
        self.moved = array("l", [0]) * seconds
        """The part of `turns` that left a region with which nothing was wrong."""
        self.reasons: dict[str, array[int]] = {}
        self.arrived_s = array("d")
        """With `ttft_s`, one entry for each first token: when its request arrived at a region."""
        self.ttft_s = array("d")
        self.done_arrived_s = array("d")
        self.e2e_s = array("d")

    def reason(self, name: str, seconds: int) -> array[int]:
        if name not in self.reasons:
            self.reasons[name] = array("l", [0]) * seconds
        return self.reasons[name]


class RegionRecord:
    """One region, at the end of each second."""

    def __init__(self, seconds: int) -> None:
        self.utilisation = array("d", [0.0]) * seconds
        self.waiting = array("l", [0]) * seconds
        self.kv = array("d", [0.0]) * seconds
        self.replicas = array("l", [0]) * seconds
        self.attempts = array("l", [0]) * seconds
        """Requests that knocked, whether or not they were served."""
        self.tokens = array("d", [0.0]) * seconds
        """Completed in this second."""


class Record:
    """One policy's run of one scenario."""

    def __init__(self, scenario: Scenario, policy: str, permitted: dict[str, tuple[str, ...]]) -> None:
        """`permitted`: demand → the regions that its tenant may use, nearest first."""
        self.scenario = scenario
        self.permitted = permitted
        self.homes = {demand: regions[0] if regions else "" for demand, regions in permitted.items()}
        self.policy = policy
        self.seconds = int(scenario.duration_s)
        regions = tuple(scenario.fleet)
        self.streams = {name: StreamRecord(self.seconds, regions) for name in scenario.demand}
        self.regions = {region: RegionRecord(self.seconds) for region in regions}
        self.marks: dict[str, array[float]] = {}
        """Figures that the policy itself names, by second."""
        self.plans = array("l", [0]) * self.seconds
        """Times that something published changed, up to the end of the second."""
        self.events: list[Event] = []
        self.forbidden = 0
        """Requests sent where their tenant's rule forbids; there must be none."""
        self.requests = 0
        self.lost = 0
        """Requests that ran in a region as it went dark."""
        self.cost = array("d", [0.0]) * self.seconds
        """Price of the tokens completed in each second, in the unit of `price_per_mtok`."""
        self.wall_s = 0.0
        self.prompt_tokens = 0.0
        self.cached_tokens = 0.0
        self.preempted = 0
        self.dns_queries = 0

    def mark(self, name: str, second: int, value: float) -> None:
        if name not in self.marks:
            self.marks[name] = array("d", [0.0]) * self.seconds
        self.marks[name][second] = value
