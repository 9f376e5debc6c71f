"""A scenario's runs, judged: what JSON, the terminal and the page are made from."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from director.sim import figures
from director.sim.checks import CheckResult, judge
from director.sim.fleet import Progress, Run
from director.sim.loading import LoadedScenario
from director.sim.measure import Record

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("requests", "requests", "{:,.0f}"),
    ("at home", "home_ratio", "{:.1%}"),
    ("refused", "refused_ratio", "{:.2%}"),
    ("failed", "failed_ratio", "{:.2%}"),
    ("TTFT p50, s", "ttft_s_p50", "{:.2f}"),
    ("TTFT p90, s", "ttft_s_p90", "{:.2f}"),
    ("TTFT p99, s", "ttft_s_p99", "{:.2f}"),
    ("whole p95, s", "e2e_s_p95", "{:.1f}"),
    ("worst utilisation", "utilisation_max", "{:.2f}"),
    ("reversals", "reversals", "{:.0f}"),
    ("price per Mtok", "price_per_mtok", "{:.3f}"),
    ("forbidden", "forbidden", "{:.0f}"),
)
"""(title, figure, format) of the comparison."""


class Results(Struct):
    scenario: str
    about: str
    seed: int
    variants: dict[str, dict[str, Record]]
    """Variant → policy → record."""
    checks: list[CheckResult]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """The contract's object; a scenario with variants gives all of them beside the first one's figures."""
        each = {
            variant: {policy: figures.summary(record) for policy, record in records.items()}
            for variant, records in self.variants.items()
        }
        out: dict[str, Any] = {
            "scenario": self.scenario,
            "seed": self.seed,
            "policies": next(iter(each.values())),
            "checks": [
                {"name": check.name, "value": check.value, "bound": check.bound, "ok": check.ok}
                for check in self.checks
            ],
            "ok": self.ok,
        }
        if list(each) != [""]:
            out["variants"] = each
        return out


def play(loaded: LoadedScenario, progress: Progress | None = None) -> Results:
    """Run every variant under every policy it names, and judge. `progress` is told each simulated second."""
    variants = {
        variant: {policy: Run(scenario, policy).play(progress) for policy in scenario.policies}
        for variant, scenario in loaded.runs.items()
    }
    checks = [judge(check, variants, variant) for variant, scenario in loaded.runs.items() for check in scenario.checks]
    seed = next(iter(loaded.runs.values())).seed
    return Results(loaded.name, loaded.about, seed, variants, checks)


def seconds_of(loaded: LoadedScenario) -> int:
    """Simulated seconds in all, for a progress bar."""
    return sum(int(scenario.duration_s) * len(scenario.policies) for scenario in loaded.runs.values())
