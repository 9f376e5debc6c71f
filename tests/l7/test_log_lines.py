"""Access log lines as outcomes: what counts for or against a region, and what for nobody."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.commands.l7_outcomes import PLACES_MAX, Tally


def line(**fields: Any) -> bytes:
    told = {"model": "m", "regions": "eu", "versions": "v1", "connected": "0.010", "answered": "0.250", **fields}
    return b"<190>Nov 30 12:00:00 director: " + json.dumps(told).encode()


def classes(*lines: bytes) -> list[tuple[str, str, int]]:
    tally = Tally()
    for one in lines:
        tally.add(one)
    return [(one["region"], one["class"], one["count"]) for one in tally.take()]


@pytest.mark.parametrize(
    ("status", "connected", "answered", "outcome"),
    [
        ("200", "0.01", "0.2", "ok"),
        ("400", "0.01", "0.2", "client"),
        ("422", "0.01", "0.2", "client"),
        ("429", "0.01", "0.2", "throttled"),
        ("503", "0.01", "0.2", "throttled"),
        ("500", "0.01", "0.2", "server"),
        ("502", "0.01", "0.2", "server"),
        ("504", "0.01", "0.2", "timeout"),
        ("502", "-", "-", "connect"),
        ("504", "-", "-", "connect"),
        ("502", "0.01", "-", "server"),
        ("504", "0.01", "-", "timeout"),
        ("499", "0.01", "-", None),
        ("-", "-", "-", None),
    ],
)
def test_what_a_status_says_of_a_region(status: str, connected: str, answered: str, outcome: str | None) -> None:
    """A client's errors and a client that left are not the region's; what the proxy itself answered is told apart."""
    told = classes(line(statuses=status, connected=connected, answered=answered))
    assert told == ([("eu", outcome, 1)] if outcome else [])


def test_each_try_counts_for_its_own_region() -> None:
    """Entries belong to the regions in order; several servers within one region are one try, and the last counts."""
    tries = line(
        regions="eu;us", versions="v1;v2", statuses="502, 502 : 200", connected="0.01, - : 0.02", answered="-, - : 0.3"
    )
    assert classes(tries) == [("eu", "connect", 1), ("us", "ok", 1)]


def test_a_fallback_without_a_version_is_nobodys() -> None:
    """While the director was silent nobody said which version would answer."""
    assert classes(line(versions="-", statuses="502", connected="-")) == []
    assert classes(line(regions="", versions="", statuses="")) == []


def test_haproxys_lines_tell_the_region_that_refused_first() -> None:
    """A retry elsewhere is a refused connection of the picked region, unless HAProxy knew before it tried."""
    common = {"picked": "eu", "regions": "us", "statuses": "200", "connected": "", "answered": ""}
    common |= {"connected_ms": "3", "answered_ms": "80"}
    assert classes(line(**common, retried="+1")) == [("eu", "connect", 1), ("us", "ok", 1)]
    assert classes(line(**common, retried="0")) == [("us", "ok", 1)]
    cut = {**common, "regions": "eu", "state": "SD"}
    assert classes(line(**cut)) == [("eu", "server", 1)]
    assert classes(line(**{**cut, "state": "CD"})) == [("eu", "ok", 1)]


def test_counts_come_together_with_times_and_hints() -> None:
    """One entry a region, version and class: the mean time to first byte, and the longest Retry-After."""
    tally = Tally()
    for answered in ("0.1", "0.3"):
        tally.add(line(statuses="200", answered=answered))
    for hint in ("5", "10", "Wed, 21 Oct 2026 07:28:00 GMT"):
        tally.add(line(statuses="429", retry_after=hint))
    ok, throttled = tally.take()
    assert (ok["count"], ok["ttft_ms"]) == (2, 200.0)
    assert (throttled["count"], throttled["retry_after_s"]) == (3, 10.0)
    assert tally.take() == []


def test_what_is_kept_is_bounded() -> None:
    """A flood of names drops the newest places, and says how many."""
    tally = Tally()
    for number in range(PLACES_MAX + 5):
        tally.add(line(model=f"m{number}", statuses="200"))
    assert len(tally.take()) == PLACES_MAX
    assert tally.dropped == 5


@given(st.binary(max_size=300))
def test_any_bytes_are_a_line_or_are_not(data: bytes) -> None:
    """Whatever arrives on the socket: nothing raises, and it is counted as one or the other."""
    tally = Tally()
    tally.add(data)
    assert tally.lines + tally.unreadable == bool(data.strip())
