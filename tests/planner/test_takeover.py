"""Two planner processes on one database: one leads, and however it goes, the other does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from director.store import lease, plans, policies
from director.store.database import Database
from director.store.reports import put_report
from tests.planner.worlds import POLICY, report
from tests.serve.processes import Director, director, wait_for

pytestmark = pytest.mark.postgres


def ask(url: str, question: object) -> object:
    async def asked() -> object:
        database = Database(url, pool_size=1)
        try:
            return await question(database)  # type: ignore[operator]
        finally:
            await database.close()

    return asyncio.run(asked())


def leader(url: str) -> tuple[str, int, int] | None:
    return ask(url, lease.leader)  # type: ignore[return-value]


def leader_is(url: str, planner: Director) -> int | None:
    """The term that this process leads with."""
    found = leader(url)
    return found[1] if found is not None and f"/{planner.pid}-" in found[0] else None


def newest(url: str) -> plans.StoredPlan | None:
    return ask(url, plans.latest_plan)  # type: ignore[return-value]


def say(url: str, sequence: int, ready: int) -> None:
    told = report(sequence, ready=ready)
    ask(url, lambda database: put_report(database, "eu-west-1", told, msgspec.json.encode(told)))


@pytest.fixture
def pair(postgres_url: str, tmp_path: Path) -> Iterator[tuple[Director, Director]]:
    """Two planners, the first of which leads and has published."""
    ask(postgres_url, lambda database: policies.add(database, {"a.yaml": ""}, POLICY, "test", "first"))
    say(postgres_url, 1, ready=4)
    env = {"DIRECTOR_DATABASE_URL": postgres_url}
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(director(["serve", "--role", "planner"], tmp_path / "first.log", env))
        wait_for(lambda: leader_is(postgres_url, first), why="the first leads")
        wait_for(lambda: newest(postgres_url), why="the first publishes")
        second = stack.enter_context(director(["serve", "--role", "planner"], tmp_path / "second.log", env))
        yield first, second


def takes_over(url: str, planner: Director, within_s: float) -> int:
    """It leads within the time, and its plans carry its term."""
    term = wait_for(lambda: leader_is(url, planner), within_s, why="the second leads")
    say(url, 2, ready=2)
    wait_for(
        lambda: (
            (stored := newest(url)) is not None
            and stored.plan.term == term
            and stored.plan.deployments[0].ready_replicas == 2
        ),
        why="the second publishes",
    )
    return term


def test_a_killed_leader_is_replaced_within_seconds(postgres_url: str, pair: tuple[Director, Director]) -> None:
    """SIGKILL: nobody gives the lease back, it ends, and the second goes on from the stored state."""
    first, second = pair
    before = newest(postgres_url)
    first.send(signal.SIGKILL)
    takes_over(postgres_url, second, within_s=8)
    after = newest(postgres_url)
    assert before is not None
    assert after is not None
    assert after.plan.previous == before.plan.epoch
    assert after.plan.epoch > before.plan.epoch


def test_a_leader_that_stops_in_order_is_replaced_at_once(postgres_url: str, pair: tuple[Director, Director]) -> None:
    """SIGTERM: the lease is given back."""
    first, second = pair
    assert first.stop() == 0
    takes_over(postgres_url, second, within_s=4)


def test_a_paused_leader_cannot_publish_when_it_wakes(postgres_url: str, pair: tuple[Director, Director]) -> None:
    """SIGSTOP, another takes over, SIGCONT: the old term writes nothing and steps down; then it stands by."""
    first, second = pair
    first.send(signal.SIGSTOP)
    term = takes_over(postgres_url, second, within_s=8)
    first.send(signal.SIGCONT)
    wait_for(lambda: "leader_stopped" in first.log, why="the first steps down")
    for sequence, ready in ((3, 1), (4, 3)):
        say(postgres_url, sequence, ready)
        wait_for(
            lambda wanted=ready: (
                (stored := newest(postgres_url)) is not None and stored.plan.deployments[0].ready_replicas == wanted
            )
        )
        assert leader_is(postgres_url, second) == term
    history = ask(postgres_url, lambda database: plans.plans_since(database, 0))
    terms = [stored.plan.term for stored in history]  # type: ignore[attr-defined]
    assert terms == sorted(terms), "a plan of the old term came after one of the new"
    second.send(signal.SIGKILL)
    wait_for(lambda: leader_is(postgres_url, first), within_s=8, why="the first leads again, with a new term")
    assert leader_is(postgres_url, first) != term
