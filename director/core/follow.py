"""How long DNS clients may still be sent to a region that died: what an operator buys with probes and TTLs."""

from __future__ import annotations

from director.core.policy import Probe


def dns_follow_s_max(probe: Probe, ttl_s: float) -> float:
    """Seconds from a region's death until the last resolver has let go of its address, at worst.

    It dies right after a probe that succeeded. Each further probe starts one interval later and needs its whole
    timeout to fail; one more than those tolerated must fail; and a resolver that asked a moment before keeps the answer
    for its whole TTL. A plan adds at most a second, which the last interval contains.
    """
    return (probe.interval_s + probe.timeout_s) * (probe.tolerated_failures + 1) + ttl_s
