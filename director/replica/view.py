"""What a transport sees of the replica it runs in.

A request takes `table` once and keeps it: the follower swaps in a newer one by a single assignment, on the serving
loop, never in the middle of a callback. Nothing here blocks, and nothing here raises because the database is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from director.core.decision import Decision
    from director.core.route import CompiledRoute
    from director.core.table import RoutingTable
    from director.core.zones import ZoneIndex
    from director.replica.tokens import TokenTable
    from director.store.database import Database

Readiness = Literal["ready", "degraded", "not_ready"]


class ReadinessReport(Struct, frozen=True):
    """`ready`: answers rest on a live plan. `degraded`: answers go on, from memory. `not_ready`: there is no plan."""

    status: Readiness
    reasons: tuple[str, ...] = ()
    """Why it is not `ready`, as codes: no_plan, database_unavailable, planner_silent, fleet_silent, snapshot."""


class ReplicaView(Protocol):
    """Read by every transport; written by the follower alone."""

    @property
    def name(self) -> str:
        """This replica among all replicas: host, role and start, unique for each start."""

    @property
    def table(self) -> RoutingTable | None:
        """What to decide from; None while there is no plan at all: refuse with 503 or SERVFAIL."""

    @property
    def zones(self) -> ZoneIndex:
        """Client address → client zone, of the policy that `table` was compiled with."""

    @property
    def static(self) -> bool:
        """The plan is old, or the planner says that every reporter is silent: to be said with every answer."""

    @property
    def degraded(self) -> bool:
        """The database cannot be reached: answers go on from memory; writes are refused with 503 and Retry-After."""

    @property
    def policy_version(self) -> int:
        """The version of the policy that `table` was compiled with; 0 while there is none."""

    @property
    def tokens(self) -> TokenTable:
        """Who may ask. Empty while no token was ever read."""

    @property
    def database(self) -> Database | None:
        """For everything that is not a decision. Calls raise DatabaseUnavailable. None when there is none at all."""

    @property
    def demand_dropped(self) -> int:
        """Requests that could not be counted as demand: more rows than are kept between two flushes."""

    def now_ms(self) -> int:
        """The database's wall clock, epoch ms, carried on by this process's monotonic clock between readings."""

    def plan_age_ms(self) -> int:
        """Since the planner's last heartbeat for the plan in use; ms, never negative."""

    def readiness(self) -> ReadinessReport:
        """Whether a load balancer should send requests here, and why not."""

    def count_decision(
        self, route: CompiledRoute, decision: Decision, tokens: float, presented_region: str | None = None
    ) -> None:
        """Count one request as demand. `tokens`: its estimate. `presented_region`: what a valid affinity token named.

        Integer and float additions only: cheap enough for every request.
        """

    def count_refusal(self, route: CompiledRoute, tokens: float, presented_region: str | None = None) -> None:
        """Count one request that no region was left for: demand all the same, or a full fleet would look idle."""

    def count_demand(self, route: CompiledRoute, decision: Decision, requests: int) -> None:
        """Count DNS answers: `requests` at the model's `estimated_tokens`. κ corrects what an answer really brings."""
