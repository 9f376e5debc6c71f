"""What the pages are made of: figures as words, flows, the map, the history's grid, rates. No server, no database."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from director.core.observations import DemandSample
from director.core.plan import OperatorMark, RegionPlan
from director.core.policy import Location, Region
from director.core.report import Errors
from director.core.request import RouteKey
from director.core.table import RoutingTable
from director.http.dashboard import flow, history, words, world
from director.http.dashboard.flow import Flow, Flows, flows_of
from director.http.dashboard.history import Sample, Series, grid
from director.http.dashboard.live import UNKNOWN, RouteRate, route_rates
from director.http.dashboard.regions import error_ratio, region_rows, state_of
from director.http.dashboard.rendering import bar
from director.http.dashboard.session import safe_next
from director.http.dashboard.trend import trend
from tests.dashboard.worlds import asked, deployment_report, report
from tests.http.fakes import KEYRING, NOW_MS, POLICY, deployment, plan


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0"),
        (940.4, "940"),
        (999.6, "1.00 k"),
        (182_000, "182 k"),
        (999_700, "1.00 M"),
        (2.5e9, "2.50 G"),
    ],
)
def test_tokens_have_three_figures(value: float | None, shown: str) -> None:
    """Three figures and a unit; unknown is a dash, and nothing is 1e+03."""
    assert words.tokens(value) == shown


def test_nearly_nothing_and_nearly_everything_do_not_read_as_such() -> None:
    """0.2 % shed is not 0, and 99.8 % admitted is not all."""
    assert [words.percent(one) for one in (0.0, 0.002, 0.5, 0.998, 1.0, 1.6)] == [
        "0 %", "< 1 %", "50 %", "> 99 %", "100 %", "160 %",
    ]  # fmt: skip
    assert [words.points(one) for one in (0.0004, -0.347, 0.031)] == ["±0", "−34.7", "+3.1"]


@given(st.floats(min_value=0, max_value=1e13))
def test_tokens_fit_their_column(value: float) -> None:
    """At most eight characters, whatever the figure."""
    assert len(words.tokens(value)) <= 8


def test_rates_count_quiet_seconds() -> None:
    """A replica that said something in two of ten seconds was asked a fifth of what those two say."""
    told = asked("open", "llama", "europe", 500.0, {"eu-west-1": 500.0}, refused=100.0)
    samples = [DemandSample("a", at, 1_000, (told,)) for at in (1_000, 10_000)]
    ((key, rate),) = route_rates(samples).items()
    assert key == RouteKey("open", (), "llama", "*", None, "europe")
    assert rate.decided == {"eu-west-1": pytest.approx(100.0)}
    assert (rate.asked, rate.refused) == (pytest.approx(120.0), pytest.approx(20.0))


def test_what_a_full_home_passes_on_is_overflow() -> None:
    """The split into home and overflow is the route's own; who has no home share hosts guests."""
    full = plan(1, (deployment("eu-west-1", admit_home=0.5, admit_overflow=()), deployment("us-east-1")))
    table = RoutingTable(full, POLICY, KEYRING)
    key = RouteKey(table.tenant_class["open"], (), "llama", "*", None, "europe")
    assert table.route(key).shares == {"eu-west-1": 0.5, "us-east-1": 0.5}
    found = flows_of(table, {key: RouteRate(100.0, {"eu-west-1": 50.0, "us-east-1": 40.0})})
    taken = found.taken()
    assert (taken["eu-west-1"].home, taken["eu-west-1"].guests) == (50.0, 0.0)
    assert (taken["us-east-1"].home, taken["us-east-1"].guests) == (0.0, 40.0)
    assert found.refused == {"europe": pytest.approx(10.0)}


def test_demand_of_a_tenant_that_is_gone_is_still_traffic() -> None:
    """A policy that drops a tenant does not make its last seconds vanish, or a page fail."""
    table = RoutingTable(plan(), POLICY, KEYRING)
    key = RouteKey("gone", (), "llama", "*", None, "mars")
    assert flows_of(table, {key: RouteRate(5.0, {"eu-west-1": 5.0})}).flows == (Flow("mars", "eu-west-1", 5.0, 0.0),)


names = st.text("abcdef-", min_size=1, max_size=12)
sizes = st.floats(min_value=0, max_value=1e6)


@given(st.dictionaries(st.tuples(names, names), st.tuples(sizes, sizes), max_size=60), st.dictionaries(names, sizes))
def test_the_picture_keeps_all_traffic(
    parts: dict[tuple[str, str], tuple[float, float]], refused: dict[str, float]
) -> None:
    """However many zones and regions: bars add up to one on each side, and every end stays on the picture."""
    found = flow.picture(Flows(tuple(Flow(*ends, *both) for ends, both in parts.items()), refused))
    total = sum(sum(both) for both in parts.values()) + sum(refused.values())
    if total <= 0:
        assert found is None
        return
    assert found is not None
    for side in (found.zones, found.regions):
        assert len(side) <= flow.ENDS_MAX + 2
        assert sum(end.share for end in side) == pytest.approx(1.0)
        assert all(end.y >= 0 and end.label_y <= found.height for end in side)
        labels = [end.label_y for end in side]
        assert all(b - a >= flow.LABEL_GAP - 1e-6 for a, b in pairwise(labels))


def test_one_word_for_a_region() -> None:
    """An operator's word first, then silence, then the region's own, then ours."""
    fine = [deployment("eu-west-1")]
    cases = [
        (RegionPlan("r", "lost", operator=OperatorMark("drain", "x", "y")), fine, "draining"),
        (RegionPlan("r", "fresh", operator=OperatorMark("down", "x", "y")), fine, "down"),
        (RegionPlan("r", "lost", health="down"), fine, "lost"),
        (RegionPlan("r", "fresh", gateway="down"), fine, "unhealthy"),
        (RegionPlan("r", "fresh"), [], "empty"),
        (RegionPlan("r", "fresh"), [deployment("r", ready_replicas=0)], "not_ready"),
        (RegionPlan("r", "fresh"), [*fine, deployment("r", breaker="open")], "breaker_open"),
        (RegionPlan("r", "stale"), [deployment("r", admit_home=0.2)], "stale"),
        (RegionPlan("r", "fresh"), [deployment("r", admit_home=0.2)], "shedding"),
        (RegionPlan("r", "fresh", health="degraded"), fine, "degraded"),
        (RegionPlan("r", "fresh"), fine, "serving"),
    ]
    for seen, deployments, wanted in cases:
        assert state_of(seen, deployments) == wanted


def test_without_reports_figures_are_unknown_and_not_zero() -> None:
    """The plan's figures stand; everything that only a report tells is None."""
    rows = region_rows(plan(), POLICY, UNKNOWN, {}, NOW_MS)
    assert [row.region for row in rows] == list(POLICY.regions)
    for row in rows:
        assert row.capacity == 100_000.0
        assert (row.utilisation, row.share, row.ttft_ms, row.error_ratio, row.report_age_ms) == (None,) * 5


def test_clients_errors_are_nobodys() -> None:
    """4xx never count; unknown completions give no ratio."""
    clean = deployment_report("m", errors_per_s=None)
    assert error_ratio(clean) is None
    assert error_ratio(structs.replace(clean, errors_per_s=Errors(client=50.0))) == 0.0
    assert error_ratio(structs.replace(clean, errors_per_s=Errors(server=5, timeout=4, connect=1))) == pytest.approx(
        0.2
    )


@given(st.integers(0, 2**42), st.sampled_from([900_000, 3_600_000, 24 * 3_600_000]), st.integers(1, 1000))
def test_the_history_reads_a_bounded_number_of_reports(end_ms: int, span_ms: int, regions: int) -> None:
    """Moments lie on a grid of their own, so that the next picture needs only what is new; their number is bounded."""
    times = grid(end_ms, span_ms, regions)
    step = times[1] - times[0]
    assert all(at % step == 0 for at in times)
    assert end_ms - step < times[-1] <= end_ms
    assert len(times) * regions <= max(history.ROWS_MAX, history.SAMPLES_MIN * regions) + 2 * regions
    assert set(grid(end_ms + step, span_ms, regions)) - set(times) == {times[-1] + step}


def test_shares_are_of_what_arrived_and_silence_is_a_gap() -> None:
    """A region that said nothing at a moment has no share there, not a share of 0."""
    series = Series((0, 5), {"a": (Sample(30.0, 0.5), None), "b": (Sample(10.0, None), Sample(10.0, 0.2))})
    assert (series.shares("a"), series.shares("b")) == ([0.75, None], [0.25, 1.0])
    assert (series.utilisations("a"), series.utilisations("b")) == ([0.5, None], [None, 0.2])
    told = report(1, (deployment_report("m", 0.5), deployment_report("n", 1.0)))
    sample = history.sample_of(msgspec.json.encode(told))
    assert sample is not None
    assert sample.arrived == pytest.approx(150_000)
    assert sample.utilisation == pytest.approx(0.75, abs=0.01)
    assert history.sample_of(b'{"schema": 9}') is None


def test_a_trend_has_gaps_where_nothing_was_said() -> None:
    """The pen is lifted, and put down again."""
    assert trend([0.0, 0.6, None, 1.2]).path == "M0.0 16.0L20.0 8.0M60.0 0.0"
    assert trend([None]).path == ""


def test_the_map_keeps_labels_apart_and_inside() -> None:
    """Neighbours' labels do not cover each other; many regions have none, and smaller discs."""
    rows = region_rows(plan(), POLICY, UNKNOWN, {}, NOW_MS)
    marks = world.markers(rows)
    assert {one.label for one in marks} == set(POLICY.regions)
    assert all(0 <= one.x <= world.WIDTH and 0 <= one.y <= world.HEIGHT for one in marks)
    assert len({(one.label_x, one.label_y) for one in marks}) == len(marks)
    crowd = [
        structs.replace(rows[0], region=f"r{i}", policy=Region("https://x", location=Location(0.0, i)))
        for i in range(60)
    ]
    assert all(one.anchor == "" and one.radius < 9 for one in world.markers(crowd))
    assert world.markers([structs.replace(rows[0], policy=Region("https://x"))]) == []


def test_a_bar_never_overflows() -> None:
    """Parts beyond the limit are cut."""
    drawn = str(bar((0.9, "home"), (0.9, "overflow")))
    assert 'width="90.0"' in drawn
    assert 'x="90.0" width="10.0"' in drawn


@pytest.mark.parametrize(
    ("path", "safe"),
    [("/", "/"), ("/?open=a", "/?open=a"), ("/dashboard/why?x=1", "/dashboard/why?x=1"), ("//evil", "/"),
     ("https://evil", "/"), ("/metrics", "/"), ("/dashboard/\r\nset-cookie: x", "/"), ("/\\evil", "/"), ("", "/")],
)  # fmt: skip
def test_a_login_goes_to_our_own_pages_only(path: str, safe: str) -> None:
    """Anything else is the start page."""
    assert safe_next(path) == safe
