"""Parts of a live tree are killed and frozen in a random order, under load, and the promises hold.

A seed replays a run. `make faults` runs many rounds; the test suite a few.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.e2e.load import Load, postmaster
from tests.e2e.tree import Fleet, Tree, live_tree
from tests.serve.processes import children, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]

ROUNDS = int(os.environ.get("DIRECTOR_FAULT_ROUNDS", "4"))
SEED = int(os.environ.get("DIRECTOR_FAULT_SEED", "1"))
EU = {"eu-west-1", "eu-central-1"}


@contextlib.contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def database_pids(tree: Tree) -> list[int]:
    pid = postmaster(tree)
    return [] if pid is None else [pid, *children(pid)]


def kill_database(tree: Tree, _: Fleet, draw: Random) -> None:
    for pid in database_pids(tree)[:1]:
        os.kill(pid, signal.SIGKILL)


def freeze_database(tree: Tree, _: Fleet, draw: Random) -> None:
    with frozen(database_pids(tree)):
        lasts(draw.uniform(1, 4))


def planner_pid(tree: Tree) -> int:
    """Of the planner that runs, once the supervisor has started it again."""

    def found() -> int | None:
        with contextlib.suppress(StopIteration):
            return tree.role_pid("planner")
        return None

    return wait_for(found, within_s=30, why="a planner runs")


def kill_planner(tree: Tree, _: Fleet, draw: Random) -> None:
    os.kill(planner_pid(tree), signal.SIGKILL)


def freeze_planner(tree: Tree, _: Fleet, draw: Random) -> None:
    with frozen([planner_pid(tree)]):
        lasts(draw.uniform(1, 6))


def silence_a_region(tree: Tree, fleet: Fleet, draw: Random) -> None:
    region = draw.choice(sorted(EU))
    fleet.muted.add(region)
    lasts(draw.uniform(1, 6))
    fleet.muted.discard(region)


def sicken_a_region(tree: Tree, fleet: Fleet, draw: Random) -> None:
    region = draw.choice(sorted(EU))
    fleet.health[region] = "down"
    lasts(draw.uniform(1, 4))
    del fleet.health[region]


def lasts(seconds: float) -> None:
    """How long a fault lasts is the fault, not a wait for something."""
    time.sleep(seconds)


FAULTS: tuple[Callable[[Tree, Fleet, Random], None], ...] = (
    kill_database,
    freeze_database,
    kill_planner,
    freeze_planner,
    silence_a_region,
    sicken_a_region,
)


def test_promises_hold_through_any_faults(tmp_path: Path) -> None:
    """No query fails, no tenant of the EU leaves it, and after each fault the tree is ready again."""
    draw = Random(SEED)
    with live_tree(tmp_path) as (tree, fleet), Load(tree, tenant="acme", name="chat.eu.infer.example.com") as load:
        wait_for(lambda: load.http > 50 and load.dns > 50, why="load runs")
        faults = [draw.choice(FAULTS) for _ in range(ROUNDS)] if len(FAULTS) < ROUNDS else draw.sample(FAULTS, ROUNDS)
        for number, fault in enumerate(faults):
            fault(tree, fleet, draw)
            what = f"round {number} of seed {SEED}: {fault.__name__}"
            wait_for(lambda: tree.status() == "ready", within_s=45, why=f"ready again after {what}")
            assert load.failures == [], what
            assert load.regions <= EU, what
        epoch = tree.select().body["plan"]["epoch"]
        fleet.health["us-east-1"] = "down"  # No fault touched it, so this is news.
        wait_for(lambda: tree.select().body["plan"]["epoch"] > epoch, why="plans are still made")
    assert load.failures == []
    assert load.regions <= EU
