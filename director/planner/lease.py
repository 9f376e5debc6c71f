"""Leadership as its holder knows it.

Problem: two planners must never publish at once, and a paused one must not wake as a leader.
Mechanism: the database holds one lease row with a term; every publication checks it in its own transaction (fencing).
Before that, the holder trusts its own monotonic clock alone: it counts the lease from the moment it *asked*, which is
earlier than the moment the database granted it, so it stops before another may start.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from director.store import lease as leases
from director.store.database import Database

LEASE_S = 3.0
"""Outlives two ticks of a second; a dead leader is replaced within about four."""

log = structlog.get_logger()


class Lease:
    """One process's claim to lead. `term` is 0 while it does not."""

    def __init__(
        self,
        database: Database,
        holder: str,
        *,
        lease_s: float = LEASE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._until_s = 0.0
        self.holder = holder
        self.lease_s = lease_s
        self.term = 0

    @property
    def held(self) -> bool:
        """Whether this process may still publish, by its own clock."""
        return self.term > 0 and self._monotonic() < self._until_s

    async def keep(self) -> bool:
        """Renew, or try to acquire. Whether the lease is held. Raises DatabaseUnavailable."""
        if self.term > 0 and not self.held:
            self.drop("lease_expired")
        asked_at_s = self._monotonic()
        if self.term > 0:
            if not await leases.renew(self._database, self.holder, self.term, self.lease_s):
                self.drop("lease_lost")
                return False
        else:
            term = await leases.acquire(self._database, self.holder, self.lease_s)
            if term is None:
                return False
            self.term = term
            log.info("leader_started", term=term, holder=self.holder)
        self._until_s = asked_at_s + self.lease_s
        return self.held

    def drop(self, why: str) -> None:
        """Stop leading, here and now."""
        if self.term > 0:
            log.warning("leader_stopped", term=self.term, holder=self.holder, why=why)
        self.term = 0
        self._until_s = 0.0

    async def release(self) -> None:
        """Let another start at once. Raises DatabaseUnavailable."""
        if self.term > 0:
            term, self.term = self.term, 0
            await leases.release(self._database, self.holder, term)
