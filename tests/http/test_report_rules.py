"""What a report must be, field by field, without a server."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.core.report import Report
from director.http.ingest.read import ReportRejected, read_report
from tests.http.reports import REPORT, encoded, with_deployment, with_root


def refused(raw: bytes) -> ReportRejected:
    with pytest.raises(ReportRejected) as caught:
        read_report(raw)
    return caught.value


def test_the_documented_example_is_taken_whole() -> None:
    """Every field of the documentation's example is read, without a warning."""
    read = read_report(encoded(REPORT))
    assert (read.warnings, read.dropped, read.ignored_fields) == ((), (), ())
    (one,) = read.report.deployments
    assert one.replicas.ready == 12
    assert one.completed is not None
    assert one.completed.prompt_tokens_per_s == 182_000
    assert one.stages is None
    assert one.ttft_ms is not None
    assert one.ttft_ms.p95 == 920


def test_absent_is_unknown_and_never_zero() -> None:
    """Optional fields that are null or absent are None."""
    read = read_report(encoded(with_deployment(running=None, kv_usage=..., arrived=None, errors_per_s=...)))
    (one,) = read.report.deployments
    assert (one.running, one.kv_usage, one.arrived, one.errors_per_s) == (None, None, None, None)


BAD_FIELDS: list[tuple[str, Any, str]] = [
    ("kv_usage", 1.06, "kv_usage"),
    ("kv_usage", -0.1, "kv_usage"),
    ("kv_usage_max", "0.5", "kv_usage_max"),
    ("kv_usage", True, "kv_usage"),
    ("running", -1, "running"),
    ("waiting", [1], "waiting"),
    ("kv_tokens", 2**63, "kv_tokens"),
    ("max_running", 10**40, "max_running"),
    ("state", "sleeping", "state"),
    ("engine", "", "engine"),
    ("model", "a\u0000b", "model"),
    ("model", "\ud800", "model"),
    ("version", 7, "version"),
    ("version", None, "version"),
    ("replicas", None, "replicas"),
    ("replicas", {"ready": 1.5, "total": 2}, "replicas.ready"),
    ("replicas", {"ready": 1}, "replicas.total"),
    ("replicas", {"ready": 1, "total": 2, "reddy": 1}, "replicas.reddy"),
    ("stages", {"prefill": {"kv_usage": 3}, "decode": {}}, "stages.prefill.kv_usage"),
    ("stages", {"prefill": {}}, "stages.decode"),
    ("adapters", {"loaded": ["a", 5]}, "adapters.loaded[1]"),
    ("adapters", ["a"], "adapters"),
    ("errors_per_s", {"sever": 1}, "errors_per_s.sever"),
    ("capacity_source", "guessed", "capacity_source"),
    ("scraped", {"answered": 1, "of": -1}, "scraped.of"),
    ("runing", 3, "runing"),
]


@pytest.mark.parametrize(("field", "value", "path"), BAD_FIELDS, ids=[f"{f}={str(v)[:20]!r}" for f, v, _ in BAD_FIELDS])
def test_one_bad_deployment_is_dropped_alone(field: str, value: Any, path: str) -> None:
    """A bad field drops its deployment, by name and path; the good one beside it stays."""
    report = with_deployment(**{field: value})
    good = {**copy.deepcopy(REPORT["deployments"][0]), "version": "good"}
    report["deployments"].append(good)
    read = read_report(encoded(report))
    assert [one.version for one in read.report.deployments] == ["good"]
    (dropped,) = read.dropped
    assert [error.path for error in dropped.errors] == [f"deployments[0].{path}"]
    assert dropped.position == 0


@pytest.mark.parametrize(("field", "value", "path"), BAD_FIELDS[:8])
def test_nothing_usable_is_refused(field: str, value: Any, path: str) -> None:
    """When every deployment is bad, the report is refused with the paths."""
    error = refused(encoded(with_deployment(**{field: value})))
    assert [problem.path for problem in error.errors] == [f"deployments[0].{path}"]


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-0.5", "9" * 5000])
def test_numbers_that_are_none_are_refused_by_path(literal: str) -> None:
    """NaN, infinities (written or overflowed), negative numbers, integers of any size."""
    raw = encoded(REPORT).replace(b'"running": 1410', f'"running": {literal}'.encode())
    assert [problem.path for problem in refused(raw).errors] == ["deployments[0].running"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", 0),
        ("schema", "1"),
        ("schema", True),
        ("boot_id", ""),
        ("boot_id", None),
        ("sequence", -1),
        ("sequence", 1.0),
        ("sequence", 2**63),
        ("observed_at", "yesterday"),
        ("observed_at", "2026-11-30T20:51:07"),
        ("interval_s", 0),
        ("interval_s", 1e9),
        ("health", "fine"),
        ("gateway", 1),
        ("deployments", None),
        ("deployments", {}),
    ],
)
def test_a_bad_head_refuses_the_report(field: str, value: Any) -> None:
    """Fields of the report itself are not optional extras: nothing of it is used."""
    error = refused(encoded(with_root(**{field: value})))
    assert [problem.path for problem in error.errors] == [field]


def test_numbers_up_to_a_bigint_are_taken() -> None:
    """The greatest sequence fits the column."""
    assert read_report(encoded(with_root(sequence=2**63 - 1))).report.sequence == 2**63 - 1


def test_a_ratio_just_above_one_is_clamped_with_a_warning() -> None:
    """Up to 1.05 it is somebody's rounding."""
    read = read_report(encoded(with_deployment(kv_usage=1.05)))
    assert read.report.deployments[0].kv_usage == 1.0
    assert read.warnings == ("deployments[0].kv_usage: 1.05 is above 1 and was taken as 1",)


def test_odd_counts_are_warned_about_and_used() -> None:
    """More ready than total happens during a roll-out: said, not dropped."""
    read = read_report(encoded(with_deployment(replicas={"ready": 13, "total": 12}, scraped={"answered": 3, "of": 2})))
    assert len(read.report.deployments) == 1
    assert len(read.warnings) == 2


@pytest.mark.parametrize(
    ("find", "instead", "path"),
    [
        (b'"running": 1410', b'"running": 1410, "running": 1', "deployments[0]"),
        (b'"ready": 12', b'"ready": 12, "ready": 0', "deployments[0].replicas"),
    ],
)
def test_duplicate_keys_are_refused_where_they_stand(find: bytes, instead: bytes, path: str) -> None:
    """The last of two equal names does not silently win."""
    error = refused(encoded(REPORT).replace(find, instead))
    assert [problem.path for problem in error.errors] == [path]
    assert "twice" in str(error.errors[0].got)


def test_a_duplicate_at_the_root_refuses_the_report() -> None:
    """Which sequence is meant is a guess."""
    assert "'sequence' twice" in str(
        refused(encoded(REPORT).replace(b'"sequence"', b'"sequence": 1, "sequence"')).errors[0]
    )


def test_a_deployment_listed_twice_counts_once() -> None:
    """The second of two entries for one model and version is dropped: they are never summed."""
    report = with_root(deployments=[REPORT["deployments"][0], {**REPORT["deployments"][0], "running": 1}])
    read = read_report(encoded(report))
    assert [one.running for one in read.report.deployments] == [1410]
    assert read.dropped[0].position == 1


def test_unknown_fields_by_schema_number() -> None:
    """At our schema a typo is refused with the near miss; above it, what we do not know is passed over and listed."""
    change = {"gpu_power_w": 5, "replicas": {"ready": 1, "total": 1, "spare": 2}}
    newer = with_deployment(**change)
    newer["schema"] = 2
    newer["mood"] = "good"
    read = read_report(encoded(newer))
    assert len(read.report.deployments) == 1
    assert set(read.ignored_fields) == {"mood", "deployments[].gpu_power_w", "deployments[].replicas.spare"}
    error = refused(encoded(with_root(healht="ok")))
    assert (error.errors[0].path, error.errors[0].suggestion) == ("healht", "health")
    error = refused(encoded(with_deployment(kv_usge=0.5)))
    assert error.errors[0].suggestion == "kv_usage"


def test_at_most_2000_deployments() -> None:
    """2,000 are taken, one more is refused."""
    many = [{"model": "m", "version": str(i), "replicas": {"ready": 1, "total": 1}} for i in range(2001)]
    assert len(read_report(encoded(with_root(deployments=many[:2000]))).report.deployments) == 2000
    assert refused(encoded(with_root(deployments=many))).errors[0].path == "deployments"


def test_a_region_that_serves_nothing_says_so() -> None:
    """An empty list is a statement: all its deployments are gone."""
    assert read_report(encoded(with_root(deployments=[]))).report.deployments == ()


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_no_report_is_refused(raw: bytes) -> None:
    """Bytes of any kind end in a refusal, deep nesting included."""
    refused(raw)


def test_deep_nesting_in_a_field_that_we_do_not_know() -> None:
    """A newer schema may nest; what cannot be read at all refuses the report instead of failing."""
    raw = encoded(with_root(schema=2)).replace(
        b'"sequence"', b'"new": ' + b"[" * 50_000 + b"]" * 50_000 + b', "sequence"'
    )
    assert "deep" in str(refused(raw))


@given(st.data())
def test_any_mutation_is_read_or_refused(data: st.DataObject) -> None:
    """Whatever replaces a value anywhere: a report comes out, or a refusal with a path; never another error."""
    report: Any = copy.deepcopy(REPORT)
    node: Any = report
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = data.draw(
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
                max_leaves=4,
            )
        )
        break
    raw = json.dumps(report).encode()
    try:
        read = read_report(raw)
    except ReportRejected:
        assert refused(raw).errors
        return
    assert isinstance(read.report, Report)
    json.dumps([str(error) for one in read.dropped for error in one.errors])
