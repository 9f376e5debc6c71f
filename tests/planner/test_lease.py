from __future__ import annotations

import pytest

from director.planner.lease import Lease
from director.store.database import Database

pytestmark = pytest.mark.postgres


class Monotonic:
    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


async def test_one_of_two_leads(database: Database) -> None:
    """The second waits while the first renews."""
    first, second = Lease(database, "a"), Lease(database, "b")
    assert await first.keep()
    assert not await second.keep()
    assert await first.keep()
    assert (first.held, second.held) == (True, False)


async def test_a_released_lease_is_taken_at_once(database: Database) -> None:
    """A planner that stops in order costs no gap."""
    first, second = Lease(database, "a"), Lease(database, "b")
    await first.keep()
    term = first.term
    await first.release()
    assert not first.held
    assert await second.keep()
    assert second.term > term


async def test_a_holder_that_cannot_renew_stops_by_its_own_clock(database: Database) -> None:
    """Cut off from the database, it stops before the lease row says that another may start."""
    clock = Monotonic()
    held = Lease(database, "a", lease_s=3.0, monotonic=clock)
    await held.keep()
    clock.s += 2.9
    assert held.held
    clock.s += 0.1
    assert not held.held


async def test_a_slow_answer_shortens_the_lease(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease counts from the asking: what the answer took on its way is not ours to lead."""
    clock = Monotonic()
    held = Lease(database, "a", lease_s=3.0, monotonic=clock)
    await held.keep()

    async def slow(*_: object) -> bool:
        clock.s += 2.0
        return True

    monkeypatch.setattr("director.store.lease.renew", slow)
    assert await held.keep()
    clock.s += 1.0
    assert not held.held


async def test_a_paused_holder_wakes_as_nobody(database: Database) -> None:
    """After a pause longer than the lease it does not even ask to renew: it starts over, with a new term."""
    clock = Monotonic()
    paused = Lease(database, "a", lease_s=0.2, monotonic=clock)
    await paused.keep()
    term = paused.term
    other = Lease(database, "b", lease_s=60.0)
    while not await other.keep():
        pass
    clock.s += 10.0
    assert not paused.held
    assert not await paused.keep()
    assert paused.term == 0
    assert other.term > term
