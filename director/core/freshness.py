"""How old a region's word is: fresh, stale, lost, never seen. And whether the silence is ours.

Ages count from the database's clock at receipt, and no region ages while the database could not take reports. A region
whose reporter died but whose gateway still answers the probes of most replicas is stale, not lost. When so much goes
silent at once that the fault is likelier ours, grades stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from director.core.observations import Observations, ProbeResult, ReceivedReport
from director.core.plan import Freshness
from director.core.policy import Policy
from director.core.state import DeploymentMemory, ProbeMemory, RegionMemory

INTERVALS_SILENT = 2.0
PROBE_HEARD_MS = 30_000
"""A replica that has not probed for this long has no vote."""


def observe_regions(
    regions: Mapping[str, RegionMemory], observations: Observations, policy: Policy, now_ms: int
) -> dict[str, RegionMemory]:
    """Every region of the policy with its newest report's times and its probes; grades are not set here."""
    reports = {received.region: received for received in observations.reports}
    out = {}
    for name in policy.regions:
        memory = regions.get(name, RegionMemory(name))
        if observations.outage_ms and memory.received_at_ms:
            memory = structs.replace(memory, received_at_ms=min(now_ms, memory.received_at_ms + observations.outage_ms))
        received = reports.get(name)
        if received is not None and is_news(memory, received):
            memory = _take_report(memory, received)
        out[name] = structs.replace(memory, probes=_probes(memory.probes, name, observations.probes, now_ms))
    return out


def is_news(memory: RegionMemory, received: ReceivedReport) -> bool:
    """Whether this report has not been taken yet."""
    return (memory.boot_id, memory.sequence) != (received.report.boot_id, received.report.sequence)


def grade(memory: RegionMemory, policy: Policy, now_ms: int) -> Freshness:
    """A region's grade by the age of its report alone, but for probes that keep it from being lost."""
    if memory.boot_id == "":
        return "unseen"
    age_s = (now_ms - memory.received_at_ms) / 1000
    if age_s <= policy.planner.fresh_for_s:
        return "fresh"
    if age_s <= policy.planner.lost_after_s or probed_ok(memory, policy):
        return "stale"
    return "lost"


def probed_ok(memory: RegionMemory, policy: Policy) -> bool:
    """More than half of the replicas that probe this region reach it."""
    if not memory.probes:
        return False
    return sum(p.failures_in_a_row == 0 for p in memory.probes) * 2 > len(memory.probes)


def probed_down(memory: RegionMemory, policy: Policy) -> bool:
    """More than half of the replicas, and at least two where two probe, failed more often than is tolerated."""
    probe = policy.regions[memory.region].probe
    if probe is None or not memory.probes:
        return False
    return sum(p.failures_in_a_row > probe.tolerated_failures for p in memory.probes) * 2 > len(memory.probes)


def silent(memory: RegionMemory, policy: Policy, now_ms: int) -> bool:
    """Whether a region that used to report has missed two reports, and is not fresh."""
    if memory.boot_id == "":
        return False
    return (now_ms - memory.received_at_ms) / 1000 > max(
        policy.planner.fresh_for_s, INTERVALS_SILENT * memory.interval_s
    )


def silence_is_ours(
    before: Mapping[str, RegionMemory],
    quiet: Mapping[str, bool],
    probed: Mapping[str, bool],
    deployments: tuple[DeploymentMemory, ...],
    silent_capacity_max: float,
) -> bool:
    """Whether more of some model's capacity is silent than fails at once, with no probe of ours to confirm it.

    Reporters come at different moments, so regions are counted from when they miss their reports (`quiet`), long before
    the first of them is lost: in one tick they never all fall. `probed`: regions whose probes confirm that they are
    down. A region that was lost before the silence began does not count, nor does a model that one region serves: there
    silence looks the same either way, and lost is the safe word.
    """
    if not any(missed and not probed.get(region, False) for region, missed in quiet.items()):
        return False
    hushed: dict[str, float] = {}
    total: dict[str, float] = {}
    homes: dict[str, set[str]] = {}
    for d in deployments:
        was = before[d.region].freshness if d.region in before else "unseen"
        if was in ("lost", "unseen"):
            continue
        homes.setdefault(d.model, set()).add(d.region)
        total[d.model] = total.get(d.model, 0.0) + d.capacity_well
        if quiet.get(d.region, False) and not probed.get(d.region, False):
            hushed[d.model] = hushed.get(d.model, 0.0) + d.capacity_well
    return any(
        len(homes[model]) > 1 and total[model] > 0 and part > silent_capacity_max * total[model]
        for model, part in hushed.items()
    )


def _take_report(memory: RegionMemory, received: ReceivedReport) -> RegionMemory:
    report = received.report
    return structs.replace(
        memory,
        received_at_ms=received.received_at_ms,
        boot_id=report.boot_id,
        sequence=report.sequence,
        interval_s=report.interval_s,
        health=report.health,
        gateway=report.gateway,
    )


def _probes(
    known: tuple[ProbeMemory, ...], region: str, results: tuple[ProbeResult, ...], now_ms: int
) -> tuple[ProbeMemory, ...]:
    by_replica = {p.replica: p for p in known if now_ms - p.at_ms <= PROBE_HEARD_MS}
    for result in sorted(results, key=lambda r: r.at_ms):
        if result.region != region:
            continue
        before = by_replica.get(result.replica, ProbeMemory(result.replica, 0))
        if result.at_ms > before.at_ms:
            failures = 0 if result.ok else before.failures_in_a_row + 1
            by_replica[result.replica] = ProbeMemory(result.replica, result.at_ms, failures)
    return tuple(by_replica[name] for name in sorted(by_replica))
