"""Every region's distance from a zone is known, or its absence is a choice.

Figures for some regions of a zone and not for others are the likeliest slip of all: the region that was added last
would silently count as far away, or as free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.core.geo import RoundTrips
from director.core.policy import DEFAULT_ZONE
from director.policy.draft import Finding
from director.policy.tree import Mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.policy.draft import Draft


def check(draft: Draft) -> Iterator[Finding]:
    """Rows are complete, zones are located, and no objective's limit shuts a zone out."""
    yield from _round_trips(draft)
    for zone in draft.policy.egress_price_per_mtok:
        if missing := _unnamed(draft, "egress_price_per_mtok", zone):
            message = f"says nothing about {', '.join(missing)}: what is left out would be free"
            yield Finding(("egress_price_per_mtok", zone), message, "a price for every region")
    yield from _shut_out(draft)


def _round_trips(draft: Draft) -> Iterator[Finding]:
    policy = draft.policy
    trips = RoundTrips(policy)
    for zone in policy.rtt_ms:
        missing = [region for region in _unnamed(draft, "rtt_ms", zone) if trips.ms(zone, region)[1] == "worst"]
        if missing:
            message = f"says nothing about {', '.join(missing)}, and coordinates are missing"
            expected = "a round trip for every region"
            expected += "" if zone == DEFAULT_ZONE else ", or a location for the zone and for those regions"
            yield Finding(("rtt_ms", zone), message, expected)
    for zone in policy.client_zones:
        if draft.given(("rtt_ms", zone)):
            continue
        unknown = [region for region in policy.regions if trips.ms(zone, region)[1] == "worst"]
        if unknown:
            message = f"how far {', '.join(unknown)} is from here is unknown: it counts as the farthest"
            yield Finding(("client_zones", zone), message, "rtt_ms, or locations", warning=True)


def _unnamed(draft: Draft, section: str, zone: str) -> list[str]:
    """Sound regions that a row leaves out. None while it names one that does not exist: that may be the one meant."""
    row = draft.node((section, zone))
    named = set(row.entries) if isinstance(row, Mapping) else set()
    if named - (draft.names("regions") or frozenset()):
        return []
    if not draft.sound(("client_zones", zone)):
        return []
    return [region for region in draft.policy.regions if region not in named and draft.sound(("regions", region))]


def _shut_out(draft: Draft) -> Iterator[Finding]:
    policy = draft.policy
    trips = RoundTrips(policy)
    for name, objective in policy.objectives.items():
        for zone in policy.client_zones:
            round_trips_ms = [trips.ms(zone, region)[0] for region in policy.regions]
            limit_ms = objective.max_rtt_ms
            if limit_ms is not None and round_trips_ms and min(round_trips_ms) > limit_ms:
                message = (
                    f"excludes every region for clients in {zone}: the nearest is {min(round_trips_ms):.0f} ms away"
                )
                yield Finding(("objectives", name, "max_rtt_ms"), message, warning=True)
