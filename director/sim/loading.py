"""A scenario file → the runs it asks for. Everything that does not fit is refused with its path.

name: step
…                       the fields of `Scenario`
variants:               optional: the same again with some values set; without it there is one run
  - {name: reports each 15 s, set: {reports.interval_s: 15}}
kept:                   optional: seeds under which a check fails, each with its reason
  - {seed: 3, variant: reports each 15 s, check: the shed share settles, why: …}
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from director.policy import PolicyInvalid, load_files
from director.policy.problem import near_miss
from director.sim import scenario as scenario_shapes
from director.sim.baselines import BASELINES
from director.sim.checks import MEASURES
from director.sim.scenario import Kept, Scenario, Variant
from director.sim.world.lengths import PRESETS

POLICIES = ("director", *BASELINES)
BASE = ""
"""The name of a run of a scenario without variants."""


class ScenarioInvalid(ValueError):
    """The file cannot be run. Each line of the message names a path, what is wrong, and what was expected."""


class LoadedScenario(Struct, frozen=True):
    name: str
    about: str
    runs: dict[str, Scenario]
    """Variant → scenario; the only key is "" where there are none."""
    kept: tuple[Kept, ...] = ()


def load(path: Path, *, seed: int | None = None, policies: tuple[str, ...] | None = None) -> LoadedScenario:
    """Read a scenario file. `seed` and `policies` stand in for the file's own. Raises `ScenarioInvalid`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioInvalid(f"{path}: cannot be read: {error}") from error
    return load_text(text, str(path), seed=seed, policies=policies)


def load_text(
    text: str, label: str, *, seed: int | None = None, policies: tuple[str, ...] | None = None
) -> LoadedScenario:
    raw = parse(text, label)
    variants = _convert(raw.pop("variants", []), tuple[Variant, ...], f"{label}: variants")
    kept = _convert(raw.pop("kept", []), tuple[Kept, ...], f"{label}: kept")
    overrides = {key: value for key, value in (("seed", seed), ("policies", policies)) if value is not None}
    runs = {}
    for variant in variants or (Variant(BASE),):
        where = f"{label}: variant {variant.name!r}" if variant.name else label
        mine = copy.deepcopy(raw)
        for target, value in variant.set.items():
            set_value(mine, target.split("."), value, f"{where}: set.{target}")
        mine.update(overrides)
        if variant.name in runs:
            raise ScenarioInvalid(f"{where}: this name is there twice")
        runs[variant.name] = scenario_of(mine, where)
    problems = [f"{label}: {problem}" for problem in _kept(kept, runs)]
    if problems:
        raise ScenarioInvalid("\n".join(problems))
    first = next(iter(runs.values()))
    return LoadedScenario(first.name, first.about, runs, kept)


def parse(text: str, label: str) -> dict[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    try:
        raw = yaml.load(text)
    except YAMLError as error:
        raise ScenarioInvalid(f"{label}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise ScenarioInvalid(f"{label}: expected a mapping with name, about, policy, fleet, demand …")
    return raw


def scenario_of(raw: dict[str, Any], where: str) -> Scenario:
    raw = dict(raw)
    policy = raw.pop("policy", None)
    if not isinstance(policy, dict):
        raise ScenarioInvalid(f"{where}: policy: expected a mapping in the shape of the policy files")
    text = StringIO()
    YAML(typ="safe", pure=True).dump(policy, text)
    try:
        loaded = load_files({"policy.yaml": text.getvalue()})
    except PolicyInvalid as error:
        lines = [f"{where}: policy.{each.path}: {_said(each)}" for each in error.problems]
        raise ScenarioInvalid("\n".join(lines)) from error
    # The policy is converted already; the rest is held to `Scenario` with a stand-in for it.
    stand_in: dict[str, Any] = {"jurisdictions": [], "regions": {}, "models": {}, "tenants": {}, "objectives": {}}
    scenario: Scenario = _convert({**raw, "policy": stand_in}, Scenario, where)
    scenario = msgspec.structs.replace(scenario, policy=loaded.policy)
    problems = list(_cross_references(scenario))
    if problems:
        raise ScenarioInvalid("\n".join(f"{where}: {problem}" for problem in problems))
    return scenario


def _said(problem: Any) -> str:
    expected = f"; expected {problem.expected}" if problem.expected else ""
    hint = f'; did you mean "{problem.suggestion}"?' if problem.suggestion else ""
    return f"{problem.message}{expected}{hint}"


def _convert(value: Any, shape: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        message = str(error)
        found = re.search(r" - at `(\$[^`]*)`$", message)
        path = found.group(1).lstrip("$").lstrip(".") if found else ""
        message = message[: found.start()] if found else message
        unknown = re.search(r"unknown field `([^`]*)`", message)
        hint = near_miss(unknown.group(1), _FIELDS) if unknown else ""
        suggestion = f'; did you mean "{hint}"?' if hint else ""
        raise ScenarioInvalid(f"{where}: {path + ': ' if path else ''}{message}{suggestion}") from error


def set_value(raw: Any, path: list[str], value: Any, where: str) -> None:
    """Set a value at a dotted path; `*` is every key or item, `+` adds an item (or each of a list of them)."""
    key, rest = path[0], path[1:]
    if isinstance(raw, list):
        if key == "+" and not rest:
            raw.extend(copy.deepcopy(value) if isinstance(value, list) else [copy.deepcopy(value)])
            return
        indices = range(len(raw)) if key == "*" else [int(key)] if key.isdigit() and int(key) < len(raw) else []
        if not indices:
            raise ScenarioInvalid(f"{where}: no item {key!r}; expected an index below {len(raw)}, * or +")
        keys: list[Any] = list(indices)
    elif isinstance(raw, dict):
        keys = list(raw) if key == "*" else [key]
        if rest and key not in raw and key != "*":
            raw[key] = {}
    else:
        raise ScenarioInvalid(f"{where}: nothing to set {key!r} in; expected a mapping or a list there")
    for each in keys:
        if rest:
            set_value(raw[each], rest, value, where)
        else:
            raw[each] = copy.deepcopy(value)


def _cross_references(scenario: Scenario) -> Iterator[str]:
    """Names that must exist elsewhere, and figures that must make sense together."""
    policy = scenario.policy
    if scenario.duration_s <= 0:
        yield f"duration_s: {scenario.duration_s}; expected more than 0 seconds"
    for region, models in scenario.fleet.items():
        yield from _unknown(f"fleet.{region}", region, policy.regions, "a region of the policy")
        for model, deployment in models.items():
            yield from _unknown(f"fleet.{region}.{model}", model, policy.models, "a model of the policy")
            yield from _unknown(
                f"fleet.{region}.{model}.engine", deployment.engine, scenario.engines, "an engine of this file"
            )
            if deployment.autoscale is not None and deployment.prefill_replicas:
                yield f"fleet.{region}.{model}.autoscale: expected none where prefill_replicas are apart"
    for name in scenario.demand:
        yield from _demand(scenario, f"demand.{name}", name)
    for i, fault in enumerate(scenario.faults):
        for region in fault.regions:
            yield from _unknown(f"faults[{i}].regions", region, scenario.fleet, "a region of the fleet")
    for policy_name in scenario.policies:
        yield from _unknown("policies", policy_name, POLICIES, "a policy of the simulator")
    for i, check in enumerate(scenario.checks):
        at = f"checks[{i}]"
        yield from _unknown(f"{at}.measure", check.measure, MEASURES, "a measure")
        if check.region is not None:
            yield from _unknown(f"{at}.region", check.region, scenario.fleet, "a region of the fleet")
        if check.demand is not None:
            yield from _unknown(f"{at}.demand", check.demand, scenario.demand, "a demand of this file")
        if sum(bound is not None for bound in (check.at_most, check.at_least, check.equals)) != 1:
            yield f"{at}: expected exactly one of at_most, at_least, equals"


def _demand(scenario: Scenario, at: str, name: str) -> Iterator[str]:
    policy, demand = scenario.policy, scenario.demand[name]
    yield from _unknown(f"{at}.zone", demand.zone, {**policy.client_zones, "default": None}, "a client zone")
    yield from _unknown(f"{at}.tenant", demand.tenant, policy.tenants, "a tenant of the policy")
    yield from _unknown(f"{at}.model", demand.model, policy.models, "a model of the policy")
    if isinstance(demand.lengths, str):
        yield from _unknown(f"{at}.lengths", demand.lengths, PRESETS, "a preset")
    if demand.of_capacity is not None:
        yield from _unknown(f"{at}.of_capacity", demand.of_capacity, scenario.fleet, "a region of the fleet")
        if demand.model not in scenario.fleet.get(demand.of_capacity, {}):
            yield f"{at}.of_capacity: {demand.of_capacity} does not serve {demand.model}"
    if sum(how is not None for how in (demand.steps, demand.diurnal, demand.trace)) != 1:
        yield f"{at}: expected exactly one of steps, diurnal, trace"


def _kept(kept: tuple[Kept, ...], runs: dict[str, Scenario]) -> Iterator[str]:
    for i, each in enumerate(kept):
        if each.variant not in runs:
            yield from _unknown(f"kept[{i}].variant", each.variant, runs, "a variant of this file")
        else:
            names = [check.name for check in runs[each.variant].checks]
            yield from _unknown(f"kept[{i}].check", each.check, names, "a check of that variant")


def _unknown(at: str, name: str, known: Any, expected: str) -> Iterator[str]:
    if name not in known:
        hint = near_miss(name, known)
        suggestion = f'; did you mean "{hint}"?' if hint else ""
        yield f"{at}: {name!r} is unknown; expected {expected}{suggestion}"


def _field_names(module: ModuleType) -> frozenset[str]:
    shapes = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Struct)]
    return frozenset(name for shape in shapes for name in shape.__struct_fields__)


_FIELDS = _field_names(scenario_shapes)
