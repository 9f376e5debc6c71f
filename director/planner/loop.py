"""One tick of the planner: lease, observe, step, check, publish.

Problem: the director must keep planning through restarts of everything, and never publish twice or from the past.
Mechanism: the state row is the only memory. A leader loads it once, keeps it in memory while each publication
succeeds, and loads it again after any that did not: an answer that was lost may have been a commit.
Hard cases: the database goes away in the middle (reload); our term is over (step down); a step that breaks an
invariant (nothing is published, the heartbeat stops, replicas say `static`, and the log says why).
"""

from __future__ import annotations

import asyncio
import time

import msgspec
import structlog

from director.core.flows import Memo
from director.core.invariants import check_invariants
from director.core.policy import Policy
from director.core.state import PlannerState
from director.core.step import step
from director.planner.lease import LEASE_S, Lease
from director.planner.metrics import PlannerCounters, Result
from director.planner.outage import outage_ms
from director.store import keys, plans, policies
from director.store.database import Database, DatabaseUnavailable
from director.store.lease import Fenced
from director.store.observe import Observer

TICK_S = 1.0

log = structlog.get_logger()


class PlannerLoop:
    """Ticks for as long as its process lives, leading whenever it holds the lease."""

    def __init__(self, database: Database, holder: str, *, tick_s: float = TICK_S, lease_s: float = LEASE_S) -> None:
        self._database = database
        self._tick_s = tick_s
        self.lease = Lease(database, holder, lease_s=lease_s)
        self.counters = PlannerCounters()
        self._loaded = False
        self._state = PlannerState()
        self._epoch = 0
        self._observer = Observer(database)
        self._last_tick_ms = 0
        self._memo = Memo()
        self._policy: tuple[int, Policy] | None = None
        self._away = False
        self._said_no_policy = False

    async def run(self) -> None:
        """Until cancelled; then the lease is given back, so that another starts at once."""
        try:
            while True:
                started_s = time.monotonic()
                await self._tick_safely()
                await asyncio.sleep(max(0.05, self._tick_s - (time.monotonic() - started_s)))
        finally:
            try:
                async with asyncio.timeout(1.0):
                    await self.lease.release()
            except (DatabaseUnavailable, TimeoutError):
                log.info("lease_left_to_expire", holder=self.lease.holder)

    async def _tick_safely(self) -> None:
        began_s = time.monotonic()
        result = await self._tried()
        self.counters.ticked(result, time.monotonic() - began_s, self.lease.term)

    async def _tried(self) -> Result:
        """A tick, whatever comes of it."""
        try:
            published = await self.tick()
            if self._away:
                self._away = False
                log.info("database_back")
            if published:
                return "published"
            return "no_policy" if self.lease.held else "following"
        except DatabaseUnavailable as error:
            self._loaded = False
            if not self._away:
                self._away = True
                log.warning("database_unavailable", why=str(error))
            return "database_away"
        except Fenced as error:
            self._loaded = False
            self.lease.drop(f"fenced: {error}")
            return "fenced"
        except Exception:
            # Ours to mend, and no reason to stop: the last plan stays, and the next tick starts from the stored state.
            self._loaded = False
            log.exception("tick_failed", term=self.lease.term)
            return "failed"

    async def tick(self) -> bool:
        """One turn. Whether it published. Raises DatabaseUnavailable, Fenced, InvariantBroken."""
        if not await self.lease.keep():
            self._loaded = False
            return False
        if not self._loaded:
            await self._load()
        now_ms, observations, cursors = await self._observer.observe()
        policy = await self._policy_of(observations.policy_version)
        if policy is None:
            return False
        silent_ms = outage_ms(observations.reports, self._last_tick_ms, now_ms)
        if silent_ms:
            log.warning("outage_seen", outage_ms=silent_ms)
            self.counters.outage_s += silent_ms / 1000
            observations = msgspec.structs.replace(observations, outage_ms=silent_ms)
        began_s = time.perf_counter()
        result = step(
            self._state,
            observations,
            policy,
            now_ms,
            previous_epoch=self._epoch,
            term=self.lease.term,
            memo=self._memo,
        )
        self.counters.stepped(time.perf_counter() - began_s)
        if result.plan is not None:
            check_invariants(result.plan, policy)
        if not self.lease.held:
            self._loaded = False
            self.lease.drop("lease_expired")
            return False
        state_json = msgspec.json.encode(result.state)
        await plans.publish(self._database, state_json, result.plan, result.events, self.lease.term, cursors)
        self._state = result.state
        self._last_tick_ms = now_ms
        if result.plan is not None:
            self._epoch = result.plan.epoch
        self.counters.published(result.state, result.events, result.plan is not None)
        for event in result.events:
            log.info("change", **{name: v for name, v in msgspec.structs.asdict(event).items() if v is not None})
        return True

    async def _policy_of(self, version: int) -> Policy | None:
        if version == 0:
            if not self._said_no_policy:
                self._said_no_policy = True
                log.warning("no_policy", hint="store one: director serve --policy DIR, or PUT /policy?apply=true")
            return None
        if self._policy is None or self._policy[0] != version:
            stored = await policies.get(self._database, version)
            assert stored is not None, f"policy version {version} was read and is not there"
            self._policy = (version, stored.policy)
            log.info("policy_in_force", version=version)
        return self._policy[1]

    async def _load(self) -> None:
        """Continue from what the last leader stored."""
        await keys.ensure(self._database)
        stored = await plans.load_state(self._database)
        self._state = PlannerState()
        self._last_tick_ms = stored.at_ms if stored is not None else 0
        if stored is not None:
            try:
                self._state = msgspec.json.decode(stored.state_json, type=PlannerState)
            except (msgspec.DecodeError, ValueError) as error:
                # Another release wrote it. Starting afresh is safe: published values are in the plan, averages return.
                log.error("state_not_readable", why=str(error))
        latest = await plans.latest_plan(self._database)
        self._epoch = latest.plan.epoch if latest is not None else 0
        self._observer = Observer(self._database, stored.cursors if stored is not None else None)
        self._memo = Memo()
        self._loaded = True
        log.info("state_loaded", epoch=self._epoch, heartbeat_at_ms=self._last_tick_ms)
