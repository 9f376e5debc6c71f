"""Failing seeds that a scenario file keeps, each with its reason: run again, and said whether they still fail.

A kept seed runs only what its check needs: the variants and policies that the check names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from director.sim.checks import CheckResult
from director.sim.fleet import Progress
from director.sim.loading import LoadedScenario
from director.sim.results import play
from director.sim.scenario import Kept, Scenario

LoadSeed = Callable[[int], LoadedScenario]
"""The scenario with this seed."""


class KeptResult(Struct, frozen=True):
    kept: Kept
    result: CheckResult

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.kept.seed,
            "name": self.result.name,
            "why": self.kept.why,
            "value": self.result.value,
            "bound": self.result.bound,
            "ok": self.result.ok,
        }


def play_kept(load: LoadSeed, kept: tuple[Kept, ...], progress: Progress | None = None) -> list[KeptResult]:
    """Run each and judge its check, in the file's order."""
    out = []
    for each in kept:
        (result,) = play(needed(load(each.seed), each), progress).checks
        out.append(KeptResult(each, result))
    return out


def needed(loaded: LoadedScenario, kept: Kept) -> LoadedScenario:
    """The one check, and what it compares: nothing else is run."""
    check = next(check for check in loaded.runs[kept.variant].checks if check.name == kept.check)
    runs: dict[str, Scenario] = {}
    for variant, policy in ((kept.variant, check.policy), (check.against_variant or kept.variant, check.against)):
        if policy is None:
            continue
        scenario = runs.get(variant) or structs.replace(loaded.runs[variant], policies=(), checks=())
        runs[variant] = structs.replace(scenario, policies=(*scenario.policies, policy))
    runs[kept.variant] = structs.replace(runs[kept.variant], checks=(check,))
    return structs.replace(loaded, runs=runs)
