"""The lease as a state machine: any sequence of takes, renewals, ends and publications, against a real Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, update

from director.core.plan import Plan
from director.core.state import PlannerState
from director.store import lease, plans, tables
from director.store.database import Database

pytestmark = pytest.mark.postgres

HOLDERS = st.sampled_from(["a", "b", "c"])
EMPTY_STATE = msgspec.json.encode(PlannerState())


class LeaseMachine(RuleBasedStateMachine):
    """A model of what must be true beside the row that is. Time passes only when the machine says so."""

    runner: asyncio.Runner
    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.leads: tuple[str, int] | None = None
        self.believes: dict[str, int] = {}
        """Terms that holders think they have: a paused process goes on believing."""
        self.terms: list[int] = []
        self.epochs: list[int] = []
        self._run(self._wipe())

    def _run(self, work):
        return self.runner.run(work)

    async def _wipe(self) -> None:
        async with self.database.transaction() as connection:
            for table in (tables.leases, tables.plans, tables.planner_state):
                await connection.execute(delete(table))

    @rule(holder=HOLDERS)
    def take(self, holder: str) -> None:
        """Only a lease that nobody holds can be taken, and each term is greater than all before."""
        term = self._run(lease.acquire(self.database, holder, 60))
        assert (term is None) == (self.leads is not None)
        if term is not None:
            assert all(term > earlier for earlier in self.terms)
            self.terms.append(term)
            self.leads = (holder, term)
            self.believes[holder] = term

    @rule(holder=HOLDERS)
    def renew(self, holder: str) -> None:
        """Only the live holder renews."""
        if holder in self.believes:
            renewed = self._run(lease.renew(self.database, holder, self.believes[holder], 60))
            assert renewed == (self.leads == (holder, self.believes[holder]))

    @rule()
    def expire(self) -> None:
        """The leader is killed, stopped or cut off, and its time passes. It may wake later and believe."""

        async def end() -> None:
            async with self.database.transaction() as connection:
                await connection.execute(update(tables.leases).values(expires_at=tables.NOW))

        self._run(end())
        self.leads = None

    @rule(holder=HOLDERS)
    def release(self, holder: str) -> None:
        if holder in self.believes:
            term = self.believes.pop(holder)
            self._run(lease.release(self.database, holder, term))
            if self.leads == (holder, term):
                self.leads = None

    @rule(holder=HOLDERS, again=st.booleans())
    def publish(self, holder: str, again: bool) -> None:
        """Only the live term publishes, epochs only grow, and an interrupted publication that is replayed is fenced."""
        if holder not in self.believes:
            return
        term = self.believes[holder]
        latest = self._run(plans.latest_plan(self.database))
        previous = latest.plan.epoch if latest is not None else 0
        plan = Plan(previous + 1, previous, term, 1, 0, (), ())
        if self.leads == (holder, term):
            self._run(plans.publish(self.database, EMPTY_STATE, plan, (), term))
            self.epochs.append(plan.epoch)
            if again:
                with pytest.raises(lease.Fenced):
                    self._run(plans.publish(self.database, EMPTY_STATE, plan, (), term))
        else:
            with pytest.raises(lease.Fenced):
                self._run(plans.publish(self.database, EMPTY_STATE, plan, (), term))

    @invariant()
    def the_row_agrees(self) -> None:
        """At most one leads, and it is who the model says."""
        leader = self._run(lease.leader(self.database))
        assert (leader[:2] if leader is not None else None) == self.leads

    @invariant()
    def epochs_only_grow(self) -> None:
        assert self.epochs == sorted(set(self.epochs))


@pytest.fixture
def machine(postgres_url: str) -> Iterator[type[LeaseMachine]]:
    """A machine with a database and a loop of its own."""
    with asyncio.Runner() as runner:

        async def connect() -> Database:
            return Database(postgres_url, pool_size=1)

        database = runner.run(connect())
        yield type("Machine", (LeaseMachine,), {"runner": runner, "database": database})
        runner.run(database.close())


def test_any_sequence_keeps_one_leader(machine: type[LeaseMachine]) -> None:
    """No interleaving gives two leaders, a reused term, a plan from the past or a plan twice."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        ),
    )
