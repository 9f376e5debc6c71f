"""The quick way of reading a question takes exactly what its specification takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from director.http.decision import question as reading
from director.http.decision.question import Question, question_from_body
from director.http.reading.fields import FieldRefused, Notes

texts = st.one_of(
    st.sampled_from(["acme", "", "null", 'a"b', "a\\b", "\x7f", "é", "a:b", "x" * 513, "x" * 257, "\u0000"]),
    st.text(max_size=8),
)
values = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.lists(texts, max_size=3),
    st.just({}),
    st.sampled_from([10**20, 1e9, 1e10, 5200]),
)
names = st.sampled_from([*Question.__struct_fields__, "modle", "at", "mode"])


def render(pairs: list[tuple[str, Any]], *, spaced: bool, ascii_only: bool) -> bytes:
    """JSON that may give a name twice, as a careless sender would."""
    colon, comma = (": ", ", ") if spaced else (":", ",")
    parts = [f"{json.dumps(name)}{colon}{json.dumps(value, ensure_ascii=ascii_only)}" for name, value in pairs]
    return ("{" + comma.join(parts) + "}").encode("utf-8", "surrogatepass")


def outcome(read: Any, body: bytes) -> Any:
    try:
        return read(body)
    except FieldRefused as refused:
        return [str(problem) for problem in refused.problems]


def by_specification(body: bytes) -> Any:
    return reading._read_question(reading._json(body), "", Notes())


@given(st.lists(st.tuples(names, values), max_size=6), st.booleans(), st.booleans())
@example([("estimated_tokens", 1), ("estimated_tokens", 2), ("session", "null")], False, True)
@example([("session", "a"), ("session", "null")], False, True)
@example([("tenant", "a"), ("tenant", "b")], True, True)
@example([("residency", ["a", "b"]), ("exclude", [])], False, True)
def test_quick_way_equals_the_specification(pairs: list[tuple[str, Any]], spaced: bool, ascii_only: bool) -> None:
    """For any object, duplicates and all: the same question, or the same refusals."""
    body = render(pairs, spaced=spaced, ascii_only=ascii_only)
    assert outcome(question_from_body, body) == outcome(by_specification, body)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_question_or_a_refusal(body: bytes) -> None:
    """Nothing that can be sent raises anything else."""
    result = outcome(question_from_body, body)
    assert isinstance(result, Question) or result


def test_a_plain_question_takes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an L7 sends all day does not pay for the specification."""

    def never(*_: Any) -> Any:
        raise AssertionError("the specification was asked")

    monkeypatch.setattr(reading, "_read_question", never)
    body = (
        b'{"tenant": "acme", "model": "llama", "version": "2026-08*", "client_ip": "203.0.113.7", "session": "conv-1",'
        b' "affinity": "1.k.r", "residency": ["EU"], "exclude": [], "estimated_tokens": 5200, "request_id": "r"}'
    )
    assert question_from_body(body).session == "conv-1"
