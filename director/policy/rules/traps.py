"""What is allowed and seldom meant. Warnings, each in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.policy.draft import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.policy.draft import Draft

REPORT_INTERVAL_S = 5.0
"""How often an agent reports unless told otherwise."""
PRICE_PER_MTOK_SUSPICIOUS = 0.005
"""Nobody serves a million tokens for half a cent: prices for a thousand tokens are of this size."""


def check(draft: Draft) -> Iterator[Finding]:
    """Known ways to get what nobody wanted."""
    yield from _timing(draft)
    yield from _prices(draft)
    for name, objective in draft.policy.objectives.items():
        if objective.spread_ms == 0 and objective.ms_per_price == 0:
            message = "0 with ms_per_price 0: one region takes everything until it is full"
            yield Finding(
                ("objectives", name, "spread_ms"), message, "a few milliseconds, to share between near ones", "", True
            )
        if objective.error_weight == 0:
            message = "0: a region that fails requests keeps its whole capacity until the breaker opens"
            yield Finding(("objectives", name, "error_weight"), message, warning=True)


def _timing(draft: Draft) -> Iterator[Finding]:
    planner = draft.policy.planner
    if planner.fresh_for_s < 2 * REPORT_INTERVAL_S:
        message = f"{planner.fresh_for_s:g} s is less than two report intervals of {REPORT_INTERVAL_S:g} s"
        yield Finding(("planner", "fresh_for_s"), message + ": one late report makes a region stale", warning=True)
    for apex, zone in draft.policy.dns.items():
        for label, entry in zone.names.items():
            if entry.ttl_s > planner.lost_after_s:
                message = f"{entry.ttl_s} s is longer than lost_after_s ({planner.lost_after_s:g} s)"
                message += ": resolvers keep a dead region longer than the director takes to notice"
                yield Finding(("dns", apex, "names", label, "ttl_s"), message, warning=True)


def _prices(draft: Draft) -> Iterator[Finding]:
    regions = draft.policy.regions
    for name, region in regions.items():
        if 0 < region.price_per_mtok < PRICE_PER_MTOK_SUSPICIOUS:
            message = f"{region.price_per_mtok:g} looks like the price of a thousand tokens"
            yield Finding(("regions", name, "price_per_mtok"), message, "the price of a million", "", True)
    priced = [name for name, region in regions.items() if region.price_per_mtok > 0]
    free = [name for name in regions if name not in priced]
    for name, objective in draft.policy.objectives.items():
        if objective.ms_per_price > 0 and free:
            who = f"{', '.join(free)} has no price and counts as free" if priced else "no region has a price"
            yield Finding(("objectives", name, "ms_per_price"), f"price matters here, and {who}", warning=True)
