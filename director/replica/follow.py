"""Follow the planner: keep a replica's table, tokens and keys what the database says.

Problem: a serving process must never ask the database for an answer, and must not be late when a region dies.
Mechanism: NOTIFY wakes one poll; a timer wakes it anyway each second, because notifications are lost with their
connection. A poll reads the heartbeat first, which is one small row; only a new epoch reads a plan. A table is
compiled in a thread, then swapped in by one assignment on the serving loop.
Hard cases: the database goes away (flag, keep serving, keep polling); it comes back as an older copy (any epoch that
differs from ours is followed, not only a greater one); a plan that cannot be compiled (logged once, the old stays).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import structlog

from director.core.affinity import KeyRing
from director.core.plan import Plan
from director.core.policy import Policy
from director.core.table import RoutingTable
from director.replica import snapshot as snapshots
from director.replica.replica import Replica
from director.store import demand, keys, notify, plans, policies, tokens
from director.store.database import Database, DatabaseUnavailable

POLL_S = 1.0
DEMAND_S = 1.0
SNAPSHOT_S_MIN = 2.0
"""At most one write in this time, however often plans change."""
SNAPSHOT_S_MAX = 15.0
"""And at least one, so that a restart knows how old its plan is."""
SECRETS_S = 5.0
"""Tokens and keys seldom change, and a change is notified: reading them all each second would be for nothing."""
CHANNELS: tuple[notify.Channel, ...] = ("plan", "tokens", "keys")

log = structlog.get_logger()


class Follower:
    """Runs beside the transports of one serving process. `run` returns when cancelled."""

    def __init__(self, replica: Replica, database: Database, *, snapshot_path: Path | None = None) -> None:
        self._replica = replica
        self._database = database
        self._snapshot_path = snapshot_path
        self._wake = asyncio.Event()
        self._policies: dict[int, Policy] = {}
        self._refused_epoch: int | None = None
        self._unsaved = False
        self._saved_at_s = 0.0
        self._secrets_due_s = 0.0
        self._keyring: KeyRing | None = None

    def restore(self) -> bool:
        """Serve from the snapshot on disk, if there is a good one. Before `run`; whether there was one."""
        if self._snapshot_path is None:
            return False
        try:
            snapshot = snapshots.read(self._snapshot_path)
        except snapshots.SnapshotRefused as error:
            log.error("snapshot_refused", path=str(self._snapshot_path), why=str(error))
            return False
        if snapshot is None:
            return False
        self._replica.restore(snapshot)
        log.info("snapshot_restored", epoch=snapshot.plan.epoch, age_ms=self._replica.plan_age_ms())
        return True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll_forever(), name="follow-poll")
            group.create_task(self._listen_forever(), name="follow-listen")
            group.create_task(self._flush_forever(), name="follow-demand")
            if self._snapshot_path is not None:
                group.create_task(self._save_forever(), name="follow-snapshot")

    # Plans, tokens, keys.

    async def _poll_forever(self) -> None:
        while True:
            self._wake.clear()
            await self._poll_safely()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()

    async def _poll_safely(self) -> None:
        replica = self._replica
        was_degraded = replica.degraded
        try:
            await self.poll()
        except DatabaseUnavailable as error:
            replica.lost_database()
            if not was_degraded:
                log.warning("database_unavailable", why=str(error))
        except Exception:
            # A bug here must not end the following of plans: the replica serves on, and the next poll tries again.
            log.exception("poll_failed")
        else:
            if was_degraded:
                log.info("database_followed", epoch=replica.compiled.plan.epoch if replica.compiled else None)

    async def poll(self) -> None:
        """One look at the database. Raises DatabaseUnavailable."""
        replica, database = self._replica, self._database
        asked_at_ns = time.monotonic_ns()
        heartbeat = await plans.heartbeat(database)
        if heartbeat is not None:
            replica.clock.reading(heartbeat.now_ms, asked_at_ns, time.monotonic_ns())
        if time.monotonic() >= self._secrets_due_s:
            await self._read_secrets()
        if self._keyring is not None and heartbeat is not None and heartbeat.epoch > 0:
            current = replica.compiled
            if current is None or current.plan.epoch != heartbeat.epoch or current.keyring != self._keyring:
                await self._follow_plan(self._keyring)
            else:
                replica.from_snapshot = False
        replica.heard(heartbeat.at_ms if heartbeat is not None else replica.heartbeat_at_ms)

    async def _read_secrets(self) -> None:
        # Set before reading: a notification that comes meanwhile asks for another reading.
        self._secrets_due_s = time.monotonic() + SECRETS_S
        try:
            self._unsaved |= self._replica.take_tokens(await tokens.all_hashes(self._database))
            self._keyring = await keys.load(self._database)
        except DatabaseUnavailable:
            self._secrets_due_s = 0.0
            raise
        if self._keyring is None:
            # The first key is about to be made: look again with the next poll.
            self._secrets_due_s = 0.0

    async def _follow_plan(self, keyring: KeyRing) -> None:
        stored = await plans.latest_plan(self._database)
        if stored is None or stored.plan.epoch == self._refused_epoch:
            return
        plan = stored.plan
        policy = await self._policy(plan.policy)
        if policy is None:
            log.error("plan_without_policy", epoch=plan.epoch, policy=plan.policy)
            return
        try:
            table = await asyncio.to_thread(self._compile, plan, policy, keyring, self._replica.compiled)
        except Exception:
            self._refused_epoch = plan.epoch
            log.exception("plan_not_compiled", epoch=plan.epoch, kept=self._replica.policy_version)
            return
        self._replica.adopt(table, plan.policy)
        self._unsaved = True

    @staticmethod
    def _compile(plan: Plan, policy: Policy, keyring: KeyRing, previous: RoutingTable | None) -> RoutingTable:
        return RoutingTable(plan, policy, keyring, previous=previous)

    async def _policy(self, version: int) -> Policy | None:
        policy = self._policies.get(version)
        if policy is None:
            stored = await policies.get(self._database, version)
            if stored is None:
                return None
            policy = stored.policy
            # A roll-back names an old version again; more than a few are never in use at once.
            self._policies = {**dict(list(self._policies.items())[-3:]), version: policy}
        return policy

    async def _listen_forever(self) -> None:
        while True:
            try:
                async for channel, _payload in notify.listen(self._database.url, CHANNELS):
                    if channel != "plan":
                        # Tokens, keys, or a new connection: what was sent before it may be lost.
                        self._secrets_due_s = 0.0
                    self._wake.set()
            except Exception:
                # Polling goes on without it: a second late, and never wrong.
                log.exception("listening_failed")
            await asyncio.sleep(POLL_S)

    # Demand.

    async def _flush_forever(self) -> None:
        flushed_at_s = time.monotonic()
        while True:
            await asyncio.sleep(DEMAND_S)
            span_ms = int((time.monotonic() - flushed_at_s) * 1000)
            flushed_at_s = time.monotonic()
            try:
                await self.flush_demand(span_ms)
            except Exception:
                log.exception("demand_not_flushed")

    async def flush_demand(self, span_ms: int) -> None:
        """Hand the planner what was decided in the last `span_ms`; drop it while the database is away."""
        sample = self._replica.demand.take(self._replica.name, self._replica.now_ms(), span_ms)
        if sample is None or self._replica.degraded:
            return
        with contextlib.suppress(DatabaseUnavailable):
            await demand.put(self._database, sample)

    # Snapshot.

    async def _save_forever(self) -> None:
        while True:
            await asyncio.sleep(SNAPSHOT_S_MIN)
            if self._unsaved or time.monotonic() - self._saved_at_s >= SNAPSHOT_S_MAX:
                try:
                    await self.save()
                except Exception:
                    log.exception("snapshot_failed")

    async def save(self) -> None:
        """Write what is served from to disk. A disk that refuses is logged: serving needs none."""
        snapshot = self._replica.snapshot()
        if snapshot is None or self._snapshot_path is None or self._replica.degraded:
            return
        self._unsaved = False
        self._saved_at_s = time.monotonic()
        try:
            await asyncio.to_thread(snapshots.write, self._snapshot_path, snapshot)
        except OSError as error:
            self._unsaved = True
            log.error("snapshot_not_written", path=str(self._snapshot_path), why=str(error))
