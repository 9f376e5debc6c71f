"""Scenario files: what fits is run, what does not is refused by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from director.sim import command, loading
from tests.sim.scenarios import SMALL


def _refusal(text: str) -> str:
    with pytest.raises(loading.ScenarioInvalid) as caught:
        loading.load_text(text, "small.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("duration_s: 120", "duration_s: soon", "duration_s: Expected `float`, got `str`"),
        ("duration_s: 120", "duration_s: 0", "duration_s: 0.0; expected more than 0 seconds"),
        ("duration_s: 120", "durations_s: 120", 'did you mean "duration_s"?'),
        ("max_running: 64", "max_runing: 64", 'did you mean "max_running"?'),
        ("replicas: 2}}\n  south", "replicas: 2}}\n  nowhere", "fleet.nowhere: 'nowhere' is unknown"),
        (
            "{engine: gpu,",
            "{engine: cpu,",
            "fleet.north.chat.engine: 'cpu' is unknown; expected an engine of this file",
        ),
        ("zone: north, tenant", "zone: nort, tenant", "demand.north.zone: 'nort' is unknown"),
        ("tenant: open", "tenant: opne", 'did you mean "open"?'),
        ("of_capacity: north", "of_capacity: west", "demand.north.of_capacity: 'west' is unknown"),
        ("steps: [[0, 0.5]]", "lengths: azure_code", "expected exactly one of steps, diurnal, trace"),
        ("residency: anywhere", "residensy: anywhere", "policy.tenants.open.residensy"),
        ("name: small", "name: [small", "small.yaml: not YAML"),
    ],
)
def test_what_does_not_fit_is_refused_by_path(old: str, new: str, said: str) -> None:
    assert said in _refusal(SMALL.replace(old, new))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (
            "checks: [{name: a, measure: settle, at_most: 1}]",
            "checks[0].measure: 'settle' is unknown; expected a measure",
        ),
        ("checks: [{name: a, measure: settle_s}]", "checks[0]: expected exactly one of at_most, at_least, equals"),
        ("checks: [{name: a, measure: settle_s, at_most: 1, region: x}]", "checks[0].region: 'x' is unknown"),
        ("policies: [directr]", 'did you mean "director"?'),
        ("faults: [{kind: outage, regions: [east], at_s: 1}]", "faults[0].regions: 'east' is unknown"),
        ("faults: [{kind: flood, regions: [north], at_s: 1}]", "faults[0].kind: Invalid enum value 'flood'"),
        (
            "variants: [{name: a, set: {fleet.north.chat.prefill_replicas: 1, fleet.north.chat.autoscale:"
            " {replicas_min: 1, replicas_max: 2}}}]",
            "fleet.north.chat.autoscale: expected none where prefill_replicas are apart",
        ),
        ("kept: [{seed: 2, check: none, why: x}]", "kept[0].check: 'none' is unknown; expected a check"),
        ("kept: [{seed: 2, variant: b, check: none, why: x}]", "kept[0].variant: 'b' is unknown"),
        ("kept: [{seed: 2, check: none}]", "missing required field `why`"),
        ("variants: [{name: a}, {name: a}]", "this name is there twice"),
        ("variants: [{name: a, set: {checks.7.name: b}}]", "set.checks.7.name"),
        ("variants: [{name: a, set: {seed.x: 1}}]", "nothing to set 'x' in"),
    ],
)
def test_checks_faults_and_variants_are_held_to_the_rest(extra: str, said: str) -> None:
    text = SMALL + ("seed: 1\nchecks: []\n" if "variants" in extra else "") + extra + "\n"
    assert said in _refusal(text)


def test_a_scenario_that_is_no_mapping_is_refused() -> None:
    assert "expected a mapping" in _refusal("- a\n- b\n")


def test_variants_set_values_by_path() -> None:
    """A dotted path sets one value, a star sets all, a plus adds to a list; the base is left alone."""
    text = SMALL + "variants:\n  - {name: plain}\n  - name: changed\n    set:\n"
    text += '      "fleet.*.chat.replicas": 5\n      engines.gpu.max_running: 7\n'
    text += "      faults: []\n      faults.+: {kind: outage, regions: [north], at_s: 5}\n"
    runs = loading.load_text(text, "small.yaml").runs
    assert {each["chat"].replicas for each in runs["changed"].fleet.values()} == {5}
    assert runs["changed"].engines["gpu"].max_running == 7
    assert [fault.kind for fault in runs["changed"].faults] == ["outage"]
    assert {each["chat"].replicas for each in runs["plain"].fleet.values()} == {2}
    assert runs["plain"].faults == ()


def test_seed_and_policies_of_the_caller_stand_in() -> None:
    runs = loading.load_text(SMALL, "small.yaml", seed=9, policies=("ramp",)).runs
    assert (runs[""].seed, runs[""].policies) == (9, ("ramp",))


def _shipped() -> list[Path]:
    return sorted(path for folder in command.shipped_folders() if folder.is_dir() for path in folder.glob("*.yaml"))


@pytest.mark.parametrize("path", _shipped(), ids=lambda path: path.stem)
def test_every_shipped_scenario_loads_and_checks_something(path: Path) -> None:
    """Its name is its file's, and every variant has at least one check."""
    loaded = loading.load(path)
    assert loaded.name == path.stem
    assert all(scenario.checks for scenario in loaded.runs.values())
