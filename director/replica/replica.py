"""The replica: one reference to everything that answers rest on, and how much of it is still alive.

Transports read it as a `ReplicaView`. The follower writes it, on the serving loop, between callbacks: so a request
that took `table` keeps one consistent world, and no lock is needed.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import TYPE_CHECKING

from director.core.affinity import KeyRing
from director.core.plan import Plan
from director.core.policy import Policy
from director.core.table import RoutingTable
from director.core.zones import ZoneIndex
from director.replica.clock import Clock
from director.replica.demand import DemandCounter
from director.replica.snapshot import Snapshot
from director.replica.tokens import TokenTable
from director.replica.view import ReadinessReport

if TYPE_CHECKING:
    from director.core.decision import Decision
    from director.core.route import CompiledRoute
    from director.store.database import Database
    from director.store.tokens import TokenRecord

STATIC_AFTER_S = 5.0
"""Heartbeats come once a second; a new leader needs about three to take over. Past this the plan counts as old."""

_NO_POLICY = Policy(jurisdictions=(), regions={}, models={}, tenants={}, objectives={})


def new_name(role: str) -> str:
    """A name that no other start of any replica has: demand and probes are told apart by it."""
    return f"{socket.gethostname()}/{role}/{os.getpid()}-{secrets.token_hex(4)}"


class Replica:
    """See `ReplicaView` for what each attribute means to a transport."""

    def __init__(self, name: str, database: Database | None, clock: Clock | None = None) -> None:
        self.name = name
        self.database = database
        self.clock = clock or Clock()
        self.now_ms = self.clock.now_ms
        self.table: RoutingTable | None = None
        self.zones = ZoneIndex(_NO_POLICY)
        self.policy_version = 0
        self.tokens = TokenTable()
        self.keyring: KeyRing | None = None
        self.degraded = True
        """True until the database answered for the first time."""
        self.demand = DemandCounter()
        self.compiled: RoutingTable | None = None
        """The newest table, also while no region ever reported and `table` is None."""
        self.from_snapshot = False
        self.heartbeat_at_ms = 0
        self._live_until_ns = 0

    # Read by transports.

    @property
    def static(self) -> bool:
        return time.monotonic_ns() >= self._live_until_ns

    @property
    def demand_dropped(self) -> int:
        return self.demand.requests_dropped

    def plan_age_ms(self) -> int:
        return max(0, self.now_ms() - self.heartbeat_at_ms)

    def readiness(self) -> ReadinessReport:
        if self.table is None:
            return ReadinessReport("not_ready", ("no_plan" if self.compiled is None else "no_region_reported",))
        reasons: list[str] = []
        if self.degraded:
            reasons.append("database_unavailable")
        elif self.plan_age_ms() >= STATIC_AFTER_S * 1000:
            reasons.append("planner_silent")
        if self.table.plan.static:
            reasons.append("fleet_silent")
        if self.from_snapshot:
            reasons.append("snapshot")
        return ReadinessReport("degraded" if reasons else "ready", tuple(reasons))

    def count_decision(
        self, route: CompiledRoute, decision: Decision, tokens: float, presented_region: str | None = None
    ) -> None:
        self.demand.decided(route, decision, tokens, presented_region)

    def count_refusal(self, route: CompiledRoute, tokens: float, presented_region: str | None = None) -> None:
        self.demand.refused(route, tokens, presented_region)

    def count_demand(self, route: CompiledRoute, decision: Decision, requests: int) -> None:
        table = self.compiled
        if table is not None and (model := table.policy.models.get(route.key.model)) is not None:
            self.demand.decided(route, decision, requests * model.estimated_tokens, requests=requests)

    # Written by the follower.

    def adopt(self, table: RoutingTable, policy_version: int, *, from_snapshot: bool = False) -> None:
        """Swap in a compiled table. A plan in which no region ever reported knows nothing: it is not served from."""
        if self.compiled is None or self.compiled.policy is not table.policy:
            self.zones = ZoneIndex(table.policy)
        self.compiled = table
        self.policy_version = policy_version
        self.keyring = table.keyring
        self.from_snapshot = from_snapshot
        self.table = table if table.plan.models_served else None

    def take_tokens(self, records: tuple[TokenRecord, ...]) -> bool:
        """Swap in who may ask; whether anything differs."""
        if records == self.tokens.records:
            return False
        self.tokens = TokenTable(records, self.now_ms)
        return True

    def heard(self, heartbeat_at_ms: int) -> None:
        """The database answered, and this is the planner's last sign of life."""
        self.degraded = False
        self.heartbeat_at_ms = heartbeat_at_ms
        plan = self.compiled.plan if self.compiled is not None else None
        left_ms = STATIC_AFTER_S * 1000 - self.plan_age_ms()
        live = plan is not None and not plan.static and left_ms > 0
        self._live_until_ns = time.monotonic_ns() + int(left_ms * 1e6) if live else 0

    def lost_database(self) -> None:
        """The database cannot be reached: every answer says so from here on."""
        self.degraded = True
        self._live_until_ns = 0

    def snapshot(self) -> Snapshot | None:
        """What to keep on disk; None while there is nothing worth keeping."""
        table = self.table
        if table is None:
            return None
        return Snapshot(
            plan=table.plan,
            policy=table.policy,
            policy_version=self.policy_version,
            keyring=table.keyring,
            tokens=self.tokens.records,
            heartbeat_at_ms=self.heartbeat_at_ms,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Serve from what the last run kept, until the database says more."""
        plan: Plan = snapshot.plan
        self.adopt(RoutingTable(plan, snapshot.policy, snapshot.keyring), snapshot.policy_version, from_snapshot=True)
        self.take_tokens(snapshot.tokens)
        self.heartbeat_at_ms = snapshot.heartbeat_at_ms
