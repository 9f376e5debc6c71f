"""Every table of docs/decision.md is executed: a document that is wrong fails here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from director.core import freshness
from director.core.admission import admit
from director.core.breaker import BREAKER_TRANSITIONS
from director.core.decision import Rejection
from director.core.explain import dns_follows_within_s
from director.core.filters import FILTERS, Candidate, RouteContext
from director.core.plan import DeploymentKey, OperatorMark, RegionPlan
from director.core.policy import DnsName, DnsZone, Objective, Planner, Probe, Region, Residency, Tenant
from director.core.room import Flow, Room
from director.core.rounds import Lane, home_shares
from director.core.state import ProbeMemory, RegionMemory
from tests.core.worlds import MODEL, NOW_MS, make_deployment, make_policy

TEXT = (Path(__file__).parents[2] / "docs" / "decision.md").read_text()


def table(*header: str) -> list[list[str]]:
    """The rows of the table with this header."""
    lines = TEXT.splitlines()
    start = lines.index("| " + " | ".join(header) + " |")
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    assert rows
    return rows


def numbers(cell: str) -> list[float]:
    return [float(part) for part in cell.split(",")]


def culprit(code: str, unseen: bool) -> tuple[Candidate, RouteContext]:
    """A candidate with this one fault."""
    fault: dict[str, object] = {
        "no_ready_replicas": {"ready_replicas": 0},
        "breaker_open": {"breaker": "open"},
    }.get(code, {})
    deployment = None if code == "model_unavailable" or unseen else make_deployment("eu", **fault)  # type: ignore[arg-type]
    mark = {"admin_down": OperatorMark("down", "ops", "x"), "draining": OperatorMark("drain", "ops", "x")}.get(code)
    lost = "unseen" if unseen else "lost" if code == "lost" else "fresh"
    observed = RegionPlan("eu", lost, "down" if code == "unhealthy" else "ok", operator=mark)  # type: ignore[arg-type]
    tenant = Tenant(
        Residency(allow=("US",)) if code == "residency" else Residency(anywhere=True),
        ("eu",) if code == "tenant_denied" else (),
    )
    context = RouteContext(
        tenant,
        (),
        MODEL,
        "9" if code == "version_unavailable" else "*",
        "a" if code == "adapter_unavailable" else None,
        Objective(max_rtt_ms=5.0 if code == "too_far" else None),
        zone_known=True,
    )
    return Candidate("eu", Region("https://eu", ("EU",)), observed, deployment, 10.0), context


def test_filters() -> None:
    """Each row is the filter at that place, with the code it answers and whether the reason lasts."""
    rows = table("filter", "code", "lasting")
    assert len(rows) == len(FILTERS)
    unseen = True
    for (name, code, lasting), reject in zip(rows, FILTERS, strict=True):
        answer = reject(*culprit(code, unseen and code == "lost"))
        assert isinstance(answer, Rejection), (name, code)
        assert (answer.filter, answer.code, answer.permanent) == (name, code, lasting == "yes")
        if code == "lost":
            unseen = False


@pytest.mark.parametrize("row", table("near ms", "capacity", "spread ms", "home shares"))
def test_home_shares(row: list[str]) -> None:
    """Worked home shares."""
    near, capacity, spread_ms, shares = row
    got = home_shares(numbers(near), numbers(capacity), float(spread_ms))
    assert [got.get(i, 0.0) for i in range(len(numbers(near)))] == pytest.approx(numbers(shares), abs=6e-4)


@pytest.mark.parametrize("row", table("capacity", "demand", "pinned", "first", "second", "refused", "overloaded"))
def test_admissions(row: list[str]) -> None:
    """Worked admissions: shares, the refused part, and what is beyond the targets."""
    capacity, demand, pinned = numbers(row[0]), float(row[1]), float(row[2])
    first, second, refused, overloaded = (float(cell) for cell in row[3:])
    rooms = [
        Room(DeploymentKey(name, "m", "1"), c, c > 0, True, None, held, 1.0, 1.0, 1.0, 0.02, c, c)
        for name, c, held in zip("ab", capacity, (pinned, 0.0), strict=True)
    ]
    lane = Lane([10.0, 40.0], 20.0, {0: 1.0})
    admit(rooms, [Flow(demand, False, True, lane, rooms)], Planner())
    assert [lane.total(0), lane.total(1)] == pytest.approx([first, second], abs=6e-4)
    assert lane.left == pytest.approx(refused, abs=6e-4)
    assert sum(lane.overload.values()) == pytest.approx(overloaded, abs=6e-4)


def test_breaker() -> None:
    """The diagram is the table."""
    assert {(state, event): after for state, event, after in table("state", "event", "next")} == dict(
        BREAKER_TRANSITIONS
    )


@pytest.mark.parametrize("row", table("report age s", "probes", "grade"))
def test_freshness(row: list[str]) -> None:
    """Grades by age and probes."""
    age_s, probes, grade = row
    policy = make_policy({"eu": Region("https://eu", ("EU",), probe=Probe("https://eu"))})
    seen = {"none": (), "ok": (ProbeMemory("r", NOW_MS),), "failing": (ProbeMemory("r", NOW_MS, 3),)}[probes]
    memory = RegionMemory("eu", received_at_ms=NOW_MS - int(1000 * float(age_s)), boot_id="b", probes=seen)
    assert freshness.grade(memory, policy, NOW_MS) == grade


@pytest.mark.parametrize("row", table("interval s", "timeout s", "tolerated", "ttl s", "worst s"))
def test_dns_follows(row: list[str]) -> None:
    """N5: the worst time until resolvers follow a failure."""
    interval_s, timeout_s, tolerated, ttl_s, worst_s = (float(cell) for cell in row)
    probe = Probe("https://eu", interval_s, timeout_s, int(tolerated))
    zone = DnsZone({"ns1": ("192.0.2.53",)}, {"chat": DnsName("any", MODEL, ttl_s=int(ttl_s))})
    policy = make_policy({"eu": Region("https://eu", ("EU",), probe=probe)}, dns={"example.com": zone})
    assert dns_follows_within_s(policy, "eu", MODEL) == worst_s


def test_every_module_that_the_page_names_exists() -> None:
    """A stranger who follows the page finds the code."""
    core = Path(freshness.__file__).parent
    for name in re.findall(r"`([a-z_]+(?:/|\.py))`", TEXT):
        assert (core / name).exists(), name
