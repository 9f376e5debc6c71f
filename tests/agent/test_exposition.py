"""Prometheus text is read as its own parser reads it, and what is no Prometheus text is refused by name."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from director.agent import exposition
from director.agent.exposition import ExpositionParser, NotUnderstood, parse_labels

NAMES = frozenset({"a:running", "b_total", "c"})
label_text = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
values = st.floats(allow_nan=False) | st.integers(-(10**6), 10**6).map(float)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@st.composite
def dumps(draw: st.DrawFn) -> str:
    lines = ["# HELP c Something.", "# TYPE c gauge"]
    for name in draw(st.lists(st.sampled_from([*NAMES, "other"]), max_size=8)):
        labels = draw(st.dictionaries(st.sampled_from(["x", "model_name", "le"]), label_text, max_size=3))
        joint = draw(st.sampled_from([",", ", "]))
        text = joint.join(f'{key}="{_escape(value)}"' for key, value in labels.items())
        stamp = draw(st.sampled_from(["", " 1700000000000"]))
        lines.append(f"{name}{{{text}}} {draw(values)!r}{stamp}" if labels else f"{name} {draw(values)!r}{stamp}")
    return "\n".join(lines) + "\n"


@given(dumps())
def test_every_wanted_sample_is_read_as_prometheus_own_parser_reads_it(text: str) -> None:
    """Labels with spaces, quotes and backslashes, timestamps, integers and infinities; of repeats the first."""
    first: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for s in family.samples:
            if s.name in NAMES:
                first.setdefault((s.name, frozenset(s.labels.items())), s.value)
    expected = sorted((name, sorted(labels), value) for (name, labels), value in first.items())
    dump = ExpositionParser(NAMES).parse(text)
    found = sorted((name, sorted(s.labels.items()), s.value) for name, samples in dump.samples.items() for s in samples)
    assert found == expected
    assert dump.malformed == 0


@given(st.text())
def test_no_text_makes_the_parser_fail_in_any_other_way_than_refusing_it(text: str) -> None:
    """A replica may answer anything."""
    parser = ExpositionParser(NAMES)
    try:
        dump = parser.parse(text)
    except NotUnderstood:
        return
    assert all(isinstance(s.value, float) for samples in dump.samples.values() for s in samples)


def test_nan_and_unwanted_series_do_not_disturb() -> None:
    """NaN is a value like others here; readers say what it means."""
    dump = ExpositionParser(NAMES).parse('c NaN\nunwanted{a="b"} 1\nbroken\nc{ 1\n')
    assert math.isnan(dump.get("c")[0].value)
    assert "unwanted" not in dump


@pytest.mark.parametrize(("text", "says"), [("<html>x", "HTML"), ('[{"a":1}]', "JSON"), ("{}", "JSON")])
def test_other_formats_are_named(text: str, says: str) -> None:
    """trtllm-serve answers JSON on /metrics; a proxy answers HTML."""
    with pytest.raises(NotUnderstood, match=says):
        ExpositionParser(NAMES).parse(text)


@pytest.mark.parametrize(
    "line",
    [
        'b_total{x="1"} 5 # {trace_id="abc"} 0.67',
        'b_total{x="1"} 5 1700000000.5 # {trace_id="abc",span="}"} 0.67 1700000000.5',
        'b_total{x="1"} 5.0 # {} 0.67',
    ],
)
def test_an_exemplar_is_not_the_value(line: str) -> None:
    """A server that writes OpenMetrics whatever it is asked for: one request's figure stands behind the count."""
    dump = ExpositionParser(NAMES).parse(f"{line}\n# EOF\n")
    assert [(s.labels, s.value) for s in dump.get("b_total")] == [({"x": "1"}, 5.0)]


def test_an_exemplar_behind_a_series_without_labels_and_a_sign_within_a_label() -> None:
    """The `#` of an exemplar stands outside of quotes."""
    dump = ExpositionParser(NAMES).parse('b_total 5 # {trace_id="abc"} 0.67\nc{x="a # {b} \\" # "} 7\n')
    assert [(s.labels, s.value) for s in dump.get("b_total")] == [({}, 5.0)]
    assert [(s.labels, s.value) for s in dump.get("c")] == [({"x": 'a # {b} " # '}, 7.0)]


def test_a_series_that_stands_there_twice_counts_once() -> None:
    """However its labels are ordered; the first one is taken."""
    dump = ExpositionParser(NAMES).parse('c{x="1",le="2"} 3\nc{le="2", x="1"} 4\nc{x="1",le="2"} 3\n')
    assert [s.value for s in dump.get("c")] == [3.0]


def test_long_labels_that_change_with_each_dump_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded by its length too."""
    monkeypatch.setattr(exposition, "MEMO_CHARACTERS_MAX", 10_000)
    parser = ExpositionParser(NAMES)
    for n in range(100):
        assert parser.parse(f'c{{x="{n:01000}"}} {n}\n').get("c")[0].value == n
    assert sum(map(len, parser._memo)) <= 12_000
    assert len(parser._distinct) <= 12


def test_a_series_remembered_from_one_dump_is_not_mixed_up_in_the_next() -> None:
    """The memory of series holds labels, never values."""
    parser = ExpositionParser(NAMES)
    assert parser.parse('c{x="1"} 1\n').get("c")[0].value == 1
    assert [s.value for s in parser.parse('c{x="1"} 2\nc{x="2"} 3\n').get("c")] == [2, 3]


def test_an_unclosed_label_is_a_broken_line() -> None:
    """Not an endless loop, and not half a label."""
    with pytest.raises(ValueError, match="closed"):
        parse_labels('a="b')
