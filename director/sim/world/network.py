"""Round trips, and which regions a demand's tenant may use at all.

`permitted` repeats the residency rule in the plainest words there are and shares no code with the core: the simulator
judges the core by it.
"""

from __future__ import annotations

from director.core.geo import RoundTrips
from director.core.policy import Policy
from director.sim.scenario import Demand


class Network:
    """Answers are worked out once: a scenario's policy does not change."""

    def __init__(self, policy: Policy, rtt_ms: dict[str, dict[str, float]]) -> None:
        """`rtt_ms`: zone → region → what the network really does, where it differs from the policy."""
        self.policy = policy
        self._real = rtt_ms
        self._round_trips = RoundTrips(policy)
        self._trips: dict[str, dict[str, float]] = {}
        self._permitted: dict[tuple[str, str, tuple[str, ...]], tuple[str, ...]] = {}

    def believed_ms(self, zone: str) -> dict[str, float]:
        """region → round trip, as the policy has it."""
        if zone not in self._trips:
            self._trips[zone] = {each: self._round_trips.ms(zone, each)[0] for each in self.policy.regions}
        return self._trips[zone]

    def real_ms(self, zone: str, region: str) -> float:
        return self._real.get(zone, {}).get(region, self.believed_ms(zone)[region])

    def permitted(self, demand: Demand) -> tuple[str, ...]:
        """Regions that may serve this demand, nearest first."""
        key = (demand.zone, demand.tenant, demand.residency)
        if key not in self._permitted:
            trips = self.believed_ms(demand.zone)
            regions = [each for each in self.policy.regions if self._allowed(each, demand)]
            self._permitted[key] = tuple(sorted(regions, key=lambda each: (trips[each], each)))
        return self._permitted[key]

    def _allowed(self, region: str, demand: Demand) -> bool:
        tags = set(self.policy.regions[region].jurisdictions)
        tenant = self.policy.tenants[demand.tenant]
        if region in tenant.deny_regions or (demand.residency and not tags & set(demand.residency)):
            return False
        rule = tenant.residency
        if tags & set(rule.forbid):
            return False
        return bool(tags & set(rule.allow)) or (rule.anywhere and bool(tags or not rule.forbid))
