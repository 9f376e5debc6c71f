"""Metrics: declared in one place, documented from there, and exported as declared by every process."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from director.core.events import Event
from director.core.observations import Observations, ReceivedReport
from director.core.report import Ttft
from director.core.state import PlannerState
from director.core.step import step
from director.http.exposition import INLINE_MAX, MetricsPage, plan_text
from director.http.metrics import REGIONS_MAX, Counters
from director.metrics.catalog import CATALOG
from director.metrics.metric import LABELS, Metric
from director.metrics.page import BEGIN, renewed
from director.metrics.text import Page, labels, number
from director.planner.metrics import PlannerCounters, exposition
from tests.http.fakes import FakeView, deployment, plan
from tests.planner.worlds import POLICY, report

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"

UNITS = ("seconds", "tokens_per_second", "ratio", "info", "age_seconds")
COUNTS = re.compile(
    r"_(epoch|version|term|replicas|connections|routes|targets|problems|leader|ready|static|away|open|held_in|down|"
    r"draining|freshness|up|correction)$"
)
"""Gauges of whole things and of states: they have no unit."""


def exported(text: str) -> dict[str, list[Sample]]:
    """Every sample of an exposition by its name."""
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def undeclared(text: str, role: str) -> list[str]:
    """What an exposition holds that its role does not declare, label by label."""
    declared = {name: metric for metric in CATALOG.values() if role in metric.roles for name in metric.exposed}
    wrong = []
    for name, samples in exported(text).items():
        if name.startswith("process_"):
            continue
        if name not in declared:
            wrong.append(name)
            continue
        expected = set(declared[name].labels) | ({"le"} if name.endswith("_bucket") else set())
        wrong += [f"{name} {sample.labels}" for sample in samples if set(sample.labels) != expected]
    return wrong


def missing(text: str, role: str) -> set[str]:
    """What a role declares and an exposition lacks, without that which had no occasion."""
    found = exported(text)
    return {
        metric.name for metric in CATALOG.values() if role in metric.roles and not set(metric.exposed) <= set(found)
    }


def test_the_document_is_made_of_the_catalog() -> None:
    """`python -m director.metrics.page docs/metrics.md` renews it."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert renewed(text) == text
    for metric in CATALOG.values():
        assert metric.text in text


def test_a_document_without_a_place_for_the_tables_is_an_error() -> None:
    """Better than tables in the wrong place."""
    with pytest.raises(ValueError, match=BEGIN):
        renewed("# nothing")


@pytest.mark.parametrize("metric", CATALOG.values(), ids=lambda metric: metric.name)
def test_names_end_in_their_unit_and_labels_are_bounded(metric: Metric) -> None:
    """No `_total` by hand, no bare figure, no label whose bound is not written down."""
    assert re.fullmatch(r"director_[a-z0-9_]+", metric.name)
    assert metric.text.endswith((".", ")"))
    assert set(metric.labels) <= set(LABELS)
    assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket"))
    assert (metric.bounds != ()) == (metric.kind == "histogram")
    assert list(metric.bounds) == sorted(metric.bounds)
    if metric.kind == "gauge":
        assert metric.name.endswith(UNITS) or COUNTS.search(metric.name), metric.name


def test_every_label_is_used() -> None:
    """The document speaks of no label that nothing has."""
    assert set(LABELS) == {label for metric in CATALOG.values() for label in metric.labels}


class TestApi:
    """`GET /metrics` of an api process."""

    @staticmethod
    async def render(view: FakeView, counters: Counters | None = None) -> str:
        return (await MetricsPage(counters or busy(), view).render()).decode()

    async def test_it_exports_what_is_declared_and_all_of_it(self) -> None:
        """With a plan and something counted of each kind, nothing of the role is missing and nothing is foreign."""
        text = await self.render(FakeView())
        assert undeclared(text, "api") == []
        assert missing(text, "api") == set()

    async def test_without_a_plan_it_tells_of_itself_only(self) -> None:
        """No region is spoken of before there is a plan."""
        found = exported(await self.render(FakeView(with_plan=False)))
        assert [sample.value for sample in found["director_ready"]] == [0.0]
        assert not [
            name for name in found if name.startswith(("director_region", "director_deployment_", "director_plan_e"))
        ]

    async def test_a_plan_is_told_as_it_is(self) -> None:
        """Figures, freshness one of four, an operator's marks, and the ratio that autoscalers read."""
        from director.core.plan import OperatorMark, RegionPlan

        shown = plan(
            deployments=(
                deployment(
                    "eu-west-1", offered_tokens_per_s=150_000.0, pinned_tokens_per_s=10_000.0, breaker="half_open"
                ),
                deployment("us-east-1", capacity_tokens_per_s=0.0, admit_overflow=()),
            ),
            regions=(
                RegionPlan("eu-west-1", "stale", operator=OperatorMark("drain", "ops", "why"), share_cap=0.25),
                RegionPlan("us-east-1", "lost"),
            ),
        )
        found = exported(plan_text(shown))

        def value(name: str, **wanted: str) -> list[float]:
            return [one.value for one in found.get(name, []) if wanted.items() <= one.labels.items()]

        assert value("director_deployment_demand_capacity_ratio", region="eu-west-1") == [1.6]
        assert value("director_deployment_demand_capacity_ratio", region="us-east-1") == []
        assert value("director_deployment_breaker_open", region="eu-west-1") == [0.5]
        assert value("director_deployment_admit_overflow_ratio", region="us-east-1") == [0.0]
        assert value("director_region_draining", region="eu-west-1") == [1.0]
        assert value("director_region_down", region="eu-west-1") == [0.0]
        assert value("director_region_share_cap_ratio") == [0.25, 1.0]
        told = {
            (one.labels["region"], one.labels["freshness"])
            for one in found["director_region_freshness"]
            if one.value == 1
        }
        assert told == {("eu-west-1", "stale"), ("us-east-1", "lost")}

    async def test_a_large_plan_is_told_whole_and_again_after_it_changed(self) -> None:
        """What is written beside the loop is the same, and never that of an older plan."""
        view = FakeView()
        many = tuple(deployment("eu-west-1", f"model-{n}") for n in range(INLINE_MAX + 1))
        view.serve(plan(1842, many))
        page = MetricsPage(Counters(), view)
        assert len(exported((await page.render()).decode())["director_deployment_ready_replicas"]) == INLINE_MAX + 1
        view.serve(plan(1843, many[:3]))
        found = exported((await page.render()).decode())
        assert [one.value for one in found["director_plan_epoch"]] == [1843.0]
        assert len(found["director_deployment_ready_replicas"]) == 3

    def test_regions_of_reports_are_bounded(self) -> None:
        """Before a first plan any region is taken: beyond the bound they share a label."""
        counters = Counters()
        for n in range(REGIONS_MAX + 100):
            counters.report(f"region-{n}", "refused")
        assert len(counters.reports) == REGIONS_MAX + 1
        assert counters.reports["other", "refused"] == 100


def busy() -> Counters:
    """Something counted of each kind."""
    counters = Counters()
    counters.decision_cell("eu-west-1", "llama", "home", "none")[0] += 1
    counters.refused("no_region")
    counters.report("eu-west-1", "accepted")
    counters.dropped("eu-west-1", 2)
    counters.outcome("ok", 3)
    counters.decided_in(30_000)
    return counters


class TestPlanner:
    """What a planner tells."""

    @staticmethod
    def leading() -> PlannerCounters:
        told = report(1)
        deployments = tuple(msgspec.structs.replace(one, ttft_ms=Ttft(300.0, 900.0)) for one in told.deployments)
        received = ReceivedReport("eu-west-1", 1_000_000, msgspec.structs.replace(told, deployments=deployments))
        result = step(PlannerState(), Observations(reports=(received,)), POLICY, 1_004_000, term=7)
        counters = PlannerCounters()
        counters.stepped(0.002)
        counters.published(result.state, result.events, result.plan is not None)
        counters.ticked("published", 0.02, 7)
        return counters

    def test_a_leader_tells_what_is_declared(self) -> None:
        """Ticks, lease, events, and what it observes."""
        text = exposition(self.leading())
        assert undeclared(text, "planner") == []
        assert missing(text, "planner") <= {"director_deployment_utilisation_ratio"}
        found = exported(text)
        assert [one.value for one in found["director_leader"]] == [1.0]
        assert [one.value for one in found["director_lease_term"]] == [7.0]
        assert [one.value for one in found["director_deployment_ttft_p95_seconds"]] == [0.9]
        (age,) = found["director_region_report_age_seconds"]
        assert 4.0 <= age.value < 60.0
        assert sum(one.value for one in found["director_planner_events_total"]) > 0
        assert {one.labels["le"]: one.value for one in found["director_planner_tick_seconds_bucket"]}["0.025"] == 1

    def test_one_that_follows_observes_nothing(self) -> None:
        """What the last leader saw is no more told by it: two would contradict each other."""
        counters = self.leading()
        counters.ticked("following", 0.001, 0)
        found = exported(exposition(counters))
        assert [one.value for one in found["director_leader"]] == [0.0]
        assert "director_region_report_age_seconds" not in found
        assert found["director_planner_tick_seconds_count"][0].value == 1

    def test_events_are_counted_by_kind(self) -> None:
        """Each change of state, once."""
        counters = PlannerCounters()
        counters.published(PlannerState(), (Event("breaker", 1, "why"), Event("breaker", 2, "why")), False)
        assert counters.events == {"breaker": 2}


class TestText:
    """The text format."""

    @pytest.mark.parametrize(
        "hostile", ['"', "\\", "a\nb", '\\"', "<script>", "ümläut", "}", ' 1\n# TYPE x counter\nx{a="']
    )
    def test_any_name_survives_as_a_label(self, hostile: str) -> None:
        """A report's model may be called anything: it comes back as it went in, and makes no line of its own."""
        metric = CATALOG["director_deployment_ready_replicas"]
        page = Page()
        page.many(metric, [(labels(metric, region="eu", model=hostile, version="1"), 3)])
        ((sample,),) = exported(page.text()).values()
        assert sample.labels == {"region": "eu", "model": hostile, "version": "1"}

    def test_a_histogram_accumulates(self) -> None:
        """Buckets count what is at most their bound; the last is all."""
        metric = CATALOG["director_planner_tick_seconds"]
        page = Page()
        page.histogram(metric, [1, 2, *[0] * (len(metric.bounds) - 2), 4], 9.5)
        found = exported(page.text())
        assert [one.value for one in found["director_planner_tick_seconds_bucket"]][:2] == [1.0, 3.0]
        assert found["director_planner_tick_seconds_bucket"][-1].labels["le"] == "+Inf"
        assert found["director_planner_tick_seconds_bucket"][-1].value == 7.0
        assert found["director_planner_tick_seconds_sum"][0].value == 9.5

    @pytest.mark.parametrize(
        ("value", "text"), [(True, "1.0"), (3, "3.0"), (0.1, "0.1"), (float("inf"), "+Inf"), (float("nan"), "NaN")]
    )
    def test_numbers(self, value: float, text: str) -> None:
        """As Prometheus reads them."""
        assert number(value) == text
