"""From memory to what a plan says of each deployment before demand is looked at: state, capacity, breaker, nearness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from director.core import capacity
from director.core.grain import grained
from director.core.observations import OperatorSetting
from director.core.plan import DeploymentPlan, Freshness, OperatorMark, RegionPlan
from director.core.policy import Policy
from director.core.state import DeploymentMemory, RegionMemory

PROMPTS_APART = 1.5
"""Mean prompts that differ by more than this factor make first-token times incomparable."""


def region_plans(
    regions: Mapping[str, RegionMemory],
    grades: Mapping[str, Freshness],
    down_by_probe: Mapping[str, bool],
    operators: Sequence[OperatorSetting],
    now_ms: int,
) -> tuple[RegionPlan, ...]:
    """One entry a region, operators' settings beside what was observed. A drain past its deadline stays a drain."""
    marks: dict[str, OperatorMark] = {}
    caps: dict[str, float] = {}
    for setting in sorted(operators, key=lambda s: s.set_at_ms):
        if setting.kind == "cap":
            caps[setting.region] = 1.0 if setting.share is None else setting.share
        elif setting.kind == "down" or marks.get(setting.region) is None or marks[setting.region].kind != "down":
            marks[setting.region] = OperatorMark(setting.kind, setting.who, setting.reason, setting.deadline_ms)
    return tuple(
        RegionPlan(
            region=name,
            freshness=grades[name],
            health=memory.health,
            gateway="down" if down_by_probe.get(name, False) else memory.gateway,
            operator=marks.get(name),
            share_cap=caps.get(name),
        )
        for name, memory in regions.items()
    )


def deployment_plans(memories: Sequence[DeploymentMemory], policy: Policy) -> list[DeploymentPlan]:
    """Each deployment's published inputs; admissions are filled in later."""
    rate_medians = _medians((m.key.model, rate) for m in memories if (rate := _own_rate(m)) is not None)
    service_medians = _medians((m.key.model, m.service_ms.published) for m in memories if m.service_ms.known)
    prompts = _medians((m.key.model, mean) for m in memories if (mean := m.mix.prompt_mean) is not None)
    return [
        _plan_one(m, policy, rate_medians.get(m.key.model), _service_ms(m, service_medians, prompts.get(m.key.model)))
        for m in memories
    ]


def _service_ms(memory: DeploymentMemory, medians: Mapping[str, float], prompt_median: float | None) -> float:
    """Time to first token when not loaded; the model's median where it was not measured or cannot be compared.

    It grows with the prompt. Where a region's own clients send longer ones than elsewhere its time is theirs and not
    its engines', and as nearness it would move them, take their prompts along, and move them back.
    """
    median_ms = medians.get(memory.key.model, 0.0)
    own = memory.mix.prompt_mean
    comparable = not own or not prompt_median or 1.0 / PROMPTS_APART <= own / prompt_median <= PROMPTS_APART
    return memory.service_ms.published if memory.service_ms.known and comparable else median_ms


def _own_rate(memory: DeploymentMemory) -> float | None:
    """A rate that this deployment measured or was given, for others of its model to start from."""
    if memory.rate_per_slot.known:
        return memory.rate_per_slot.published
    available = capacity.slots(memory.report)
    if memory.report.capacity_tokens_per_s is not None and available > 0:
        return memory.report.capacity_tokens_per_s / available
    return None


def _plan_one(memory: DeploymentMemory, policy: Policy, rate_median: float | None, service_ms: float) -> DeploymentPlan:
    report = memory.report
    rate, source = capacity.rate_per_slot(memory.rate_per_slot, report, rate_median)
    region = policy.regions[memory.key.region]
    ceiling = region.capacity_max.get(memory.key.model, float("inf"))
    able = min(ceiling, capacity.slots(report) * rate) if report.state == "serving" else 0.0
    # What it sustains when well: a deployment that is down keeps its last good figure, and with it its home share.
    well = able if able > 0 else min(ceiling, memory.capacity_well)
    return DeploymentPlan(
        region=memory.key.region,
        model=memory.key.model,
        version=memory.key.version,
        state=report.state,
        ready_replicas=report.replicas.ready,
        adapters_loaded=report.adapters.loaded,
        adapters_loadable=report.adapters.loadable,
        service_ms=grained(service_ms, 10),
        capacity_tokens_per_s=grained(able * memory.quality, 10),
        capacity_well_tokens_per_s=grained(well, 10),
        capacity_source=source,
        quality=grained(memory.quality, 10_000),
        trim=memory.trim_published,
        breaker=memory.breaker.state,
        breaker_until_ms=memory.breaker.until_ms if memory.breaker.state == "open" else None,
        breaker_held_in=memory.breaker.held_in,
        retry_after_ms=memory.retry_after_ms or None,
    )


def _medians(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    by_model: dict[str, list[float]] = {}
    for model, value in pairs:
        by_model.setdefault(model, []).append(value)
    return {model: median(values) for model, values in by_model.items()}
