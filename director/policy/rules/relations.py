"""Settings that bound one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.policy.draft import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.policy.draft import Draft


def check(draft: Draft) -> Iterator[Finding]:
    """Orders that the planner and the breaker rely on."""
    yield from _planner(draft)
    policy = draft.policy
    if policy.breaker.open_s > policy.breaker.open_s_max:
        message = f"{policy.breaker.open_s:g} is longer than open_s_max ({policy.breaker.open_s_max:g})"
        yield Finding(("breaker", "open_s"), message, "open_s ≤ open_s_max")
    for name, region in policy.regions.items():
        probe = region.probe
        if probe is not None and probe.timeout_s > probe.interval_s:
            message = f"{probe.timeout_s:g} is longer than interval_s ({probe.interval_s:g}): probes would overlap"
            yield Finding(("regions", name, "probe", "timeout_s"), message, "timeout_s ≤ interval_s")
    for apex, zone in policy.dns.items():
        for label, entry in zone.names.items():
            if entry.ttl_trouble_s > entry.ttl_s:
                message = f"{entry.ttl_trouble_s} is longer than ttl_s ({entry.ttl_s})"
                yield Finding(("dns", apex, "names", label, "ttl_trouble_s"), message, "ttl_trouble_s ≤ ttl_s")


def _planner(draft: Draft) -> Iterator[Finding]:
    planner = draft.policy.planner
    if planner.overflow_target >= planner.home_target:
        message = f"{planner.overflow_target:g} is not below home_target ({planner.home_target:g})"
        yield Finding(
            ("planner", "overflow_target"), message, "overflow_target < home_target: guests stop before residents"
        )
    if planner.home_target <= 0:
        yield Finding(("planner", "home_target"), "0 admits nobody", "a number above 0 and at most 1")
    if planner.fresh_for_s >= planner.lost_after_s:
        message = f"{planner.lost_after_s:g} is not above fresh_for_s ({planner.fresh_for_s:g})"
        yield Finding(
            ("planner", "lost_after_s"), message, "fresh_for_s < lost_after_s: a report is stale before it is lost"
        )
