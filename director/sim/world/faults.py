"""What goes wrong, as changes of the world at a time. Each fault begins, and most of them end."""

from __future__ import annotations

from collections.abc import Callable

from director.core.observations import OperatorSetting
from director.sim.scenario import Fault
from director.sim.world.site import Site

Change = Callable[[float], int]
"""Applies at a time (s); returns how many running requests it lost."""


def begin(fault: Fault, site: Site) -> Change:
    def apply(now_s: float) -> int:
        return _BEGIN[fault.kind](fault, site, now_s)

    return apply


def end(fault: Fault, site: Site) -> Change:
    def apply(now_s: float) -> int:
        _end(fault, site, now_s)
        return 0

    return apply


def drain_setting(fault: Fault, region: str, epoch_ms: int) -> OperatorSetting:
    return OperatorSetting(region, "drain", "operator", "planned work", epoch_ms + int(fault.at_s * 1000))


def _outage(fault: Fault, site: Site, now_s: float) -> int:
    site.silent = True
    return len(site.go_dark(now_s))


def _outage_agent_lives(fault: Fault, site: Site, now_s: float) -> int:
    site.health = "down"
    return len(site.go_dark(now_s))


def _silence(fault: Fault, site: Site, now_s: float) -> int:
    site.silent = True
    return 0


def _errors(fault: Fault, site: Site, now_s: float) -> int:
    site.error_share = fault.share
    return 0


def _throttle(fault: Fault, site: Site, now_s: float) -> int:
    site.throttle_share, site.retry_after_s = fault.share, fault.retry_after_s
    return 0


def _lose_replicas(fault: Fault, site: Site, now_s: float) -> int:
    for engine in site.engines.values():
        engine.set_replicas(round(engine.replicas * (1.0 - fault.share)), now_s)
    return 0


def _partition(fault: Fault, site: Site, now_s: float) -> int:
    site.partitioned_share = fault.share
    return 0


def _drain(fault: Fault, site: Site, now_s: float) -> int:
    return 0


_BEGIN: dict[str, Callable[[Fault, Site, float], int]] = {
    "outage": _outage,
    "last_report": _outage_agent_lives,
    "agent_silent": _silence,
    "errors": _errors,
    "throttle": _throttle,
    "replicas": _lose_replicas,
    "partition": _partition,
    "drain": _drain,
}


def _end(fault: Fault, site: Site, now_s: float) -> None:
    if fault.kind in ("outage", "last_report"):
        for engine in site.engines.values():
            engine.advance(now_s)
        site.dark = site.silent = False
        site.health = "ok"
    elif fault.kind == "agent_silent":
        site.silent = False
    elif fault.kind == "errors":
        site.error_share = 0.0
    elif fault.kind == "throttle":
        site.throttle_share, site.retry_after_s = 0.0, None
    elif fault.kind == "replicas":
        for model, engine in site.engines.items():
            engine.set_replicas(site.replicas_nominal[model], now_s)
    elif fault.kind == "partition":
        site.partitioned_share = 0.0
