"""What the responder needs from the process that hosts it. `director.replica` provides it; tests bring their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from director.core.decision import Decision
    from director.core.route import CompiledRoute
    from director.core.table import RoutingTable


class Zones(Protocol):
    """`director.core.zones.ZoneIndex`, or what stands in for it."""

    def match(self, packed: bytes, family: int, source_bits: int | None = None) -> tuple[str, int]:
        """The client zone of a network, and the length of the widest prefix around it that has the same zone."""


class DnsView(Protocol):
    """Read once per batch of queries. Nothing here blocks or raises."""

    @property
    def table(self) -> RoutingTable | None:
        """What to decide from; None while there is no plan: every query gets SERVFAIL."""

    @property
    def zones(self) -> Zones:
        """Belongs to the policy that `table` was compiled with."""

    @property
    def static(self) -> bool:
        """The plan is old or its inputs are silent: answers say so with an extended error."""

    def now_ms(self) -> int:
        """Wall clock, epoch ms."""

    def count_demand(self, route: CompiledRoute, decision: Decision, requests: int) -> None:
        """Count answers that sent clients to a region."""
