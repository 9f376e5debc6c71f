"""The page: what a reader compares stands beside each other on one scale, and nothing empty is drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from director.sim import loading, results
from director.sim.plots import WIDTH, Line, Span, chart
from director.sim.report_html import page
from tests.sim.scenarios import SMALL

COMPARED = """\
policies: [director, nearest]
checks:
  - {name: it holds, measure: forbidden, equals: 0}
variants:
  - name: calm
    set: {demand.*.steps: [[0, 0.1]]}
  - name: crowded
    set:
      demand.north.steps: [[0, 0.5], [60, 3.0]]
      checks.+: {name: it fails, measure: utilisation_max, at_most: 0}
"""


@pytest.fixture(scope="module")
def text() -> str:
    return page(results.play(loading.load_text(SMALL + COMPARED, "small.yaml")))


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"<h2>(.*?)</h2>", text)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_each_variant_has_its_own_checks(text: str) -> None:
    """Without the variant's name before each; the head says how many fail, and lists those alone."""
    sections = _sections(text)
    assert list(sections) == ["", "calm", "crowded"]
    assert "1 of 3 checks fail" in sections[""]
    assert "<td>crowded: it fails</td>" in sections[""]
    assert "it holds" not in sections[""]
    assert "<td>it holds</td>" in sections["calm"]
    assert "it fails" not in sections["calm"]
    assert "<td>it fails</td>" in sections["crowded"]


def _top(svg: str) -> str:
    return _ticks(svg)[-1]


def _ticks(svg: str) -> list[str]:
    return re.findall(r'text-anchor="end">([^<]*)</text>', svg)[:-1]


def _charts(text: str, title: str) -> Iterator[str]:
    return (svg for svg in re.findall(r"<svg.*?</svg>", text) if title in svg)


def test_policies_stand_side_by_side_on_one_scale(text: str) -> None:
    """Nearest goes far over its slots: it is cut at 2, said so, and the director's chart is as high."""
    section = _sections(text)["crowded"]
    (ours,) = _charts(section, ">director: utilisation<")
    (nearest,) = _charts(section, ">nearest: utilisation<")
    assert _top(ours) == _top(nearest) == "2"
    assert ", up to" in nearest
    assert ", up to" not in ours
    assert len(list(_charts(section, ": shares of demand north<"))) == 2


def test_that_nobody_was_refused_is_said_and_not_drawn(text: str) -> None:
    calm, crowded = _sections(text)["calm"], _sections(text)["crowded"]
    assert "No request was refused, and none failed." in calm
    assert not list(_charts(calm, ">Refused and failed<"))
    assert list(_charts(crowded, ">Refused and failed<"))


def test_a_fleet_without_prices_shows_none() -> None:
    free = SMALL.replace(", price_per_mtok: 2.0", "").replace(", price_per_mtok: 1.0", "")
    text = page(results.play(loading.load_text(free.replace("duration_s: 120", "duration_s: 30"), "small.yaml")))
    assert "No region has a price" in text
    assert "price per Mtok" not in text
    assert not list(_charts(text, ">Cost of completed tokens<"))


@pytest.mark.parametrize(
    ("highest", "ticks"),
    [
        (0.42, ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]),
        (0.97, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (1.13, ["0", "0.3", "0.6", "0.9", "1.2"]),
        (2300.0, ["0", "500", "1k", "1.5k", "2k", "2.5k"]),
        (0.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
    ],
)
def test_an_axis_has_round_steps(highest: float, ticks: list[str]) -> None:
    """It ends at the next round number above the greatest value."""
    svg = chart("a", [Line("b", [0.0, highest])], 2)
    assert _ticks(svg) == ticks


def test_faults_are_named_where_they_are_drawn() -> None:
    """Inside the plot, one above the other; what begins late is written towards its end."""
    spans = [Span(10.0, 20.0, "outage: north"), Span(90.0, 100.0, "errors: <south>")]
    svg = chart("a", [Line("b", [0.0] * 100)], 100, spans=spans)
    first, late = re.findall(r'<text class="tick" x="([^"]*)"( text-anchor="end")? y="([^"]*)">[^<]*: ', svg)
    assert float(first[0]) < WIDTH / 2 < float(late[0]) < WIDTH
    assert (first[1], late[1] != "") == ("", True)
    assert float(late[2]) < float(first[2])
    assert "errors: &lt;south&gt;</text>" in svg
