"""Checks: a figure against its bound, and clear words when it cannot be measured."""

from __future__ import annotations

import pytest

from director.sim.checks import CheckUnusable, judge
from director.sim.fleet import Run
from director.sim.measure import Record
from director.sim.scenario import Check
from tests.sim.scenarios import small


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Record]]:
    scenario = small(demand__north__steps=[[0, 0.5], [50, 2.0]], demand__south__steps=[[0, 0.2]])
    return {"": {policy: Run(scenario, policy).play() for policy in ("director", "nearest")}}


@pytest.mark.parametrize(
    ("check", "ok"),
    [
        (Check("a", "forbidden", equals=0), True),
        (Check("a", "utilisation_max", region="north", at_most=0.01), False),
        (Check("a", "utilisation_max", region="north", at_least=0.01), True),
        (Check("a", "shed_final", demand="north", from_s=60, at_least=0.1), True),
        (Check("a", "shed_final", policy="nearest", demand="north", from_s=60, at_most=0), True),
        (Check("a", "home_share_min", demand="south", from_s=30, at_least=0.99), True),
        (Check("a", "went_ratio", demand="north", region="south", from_s=70, at_least=0.1), True),
        (Check("a", "reason_ratio", text="overflow", demand="north", from_s=70, at_least=0.1), True),
        (Check("a", "ttft_s", policy="nearest", against="director", from_s=60, argument=0.9, at_least=1), True),
        (Check("a", "plans", at_least=1), True),
        (Check("a", "events", text="first_plan", equals=1), True),
        (Check("a", "mark_max", text="static", equals=0), True),
        (Check("a", "mutual_overflow_max", from_s=60, at_most=0.001), True),
        (Check("a", "preempted", equals=0), True),
        (Check("a", "prefix_hit_ratio", at_most=0), True),
    ],
)
def test_a_check_holds_or_does_not(records: dict[str, dict[str, Record]], check: Check, ok: bool) -> None:
    assert judge(check, records).ok is ok


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (Check("a", "settle_s", at_most=1), "expected a demand"),
        (
            Check("a", "forbidden", policy="ramp", equals=0),
            "policy 'ramp' was not run; expected one of director, nearest",
        ),
        (Check("a", "ttft_s", against="nearest", against_variant="b", at_most=1), "no variant 'b'"),
        (Check("a", "mark_max", text="stat", at_most=1), "no figure 'stat'; there are static"),
    ],
)
def test_what_cannot_be_measured_is_said(records: dict[str, dict[str, Record]], check: Check, said: str) -> None:
    with pytest.raises(CheckUnusable, match=said):
        judge(check, records)


def test_a_variant_names_its_checks(records: dict[str, dict[str, Record]]) -> None:
    assert judge(Check("holds", "forbidden", equals=0), {"v": records[""]}, "v").name == "v: holds"


def test_preemption_and_warm_prefixes_are_measured() -> None:
    """Sessions find prefixes, and KV for a fifth of the slots is not enough for all that stay at home."""
    scenario = small(
        engines__gpu__kv_tokens=20_000,
        engines__gpu__kv_admit=1.0,
        demand__north__steps=[[0, 1.5]],
        demand__south__sessions={"later_turns": 0.7},
    )
    records = {"": {"nearest": Run(scenario, "nearest").play()}}
    assert judge(Check("a", "preempted", policy="nearest", at_least=1), records).ok
    assert judge(Check("a", "prefix_hit_ratio", policy="nearest", at_least=0.001), records).ok
