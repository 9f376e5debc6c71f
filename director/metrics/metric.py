"""One metric as it is declared: name, kind, labels, text. What collectors write and what the document says."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["counter", "gauge", "histogram"]
Role = Literal["api", "dns", "planner", "agent"]

LABELS = {
    "affinity": "what a presented affinity token turned out to be: `none`, `honoured`, `released`, `rejected`, "
    "`expired`, `forged`, `foreign`",
    "class": "how a request ended: `ok`, `server`, `timeout`, `connect`, `throttled`, `client`",
    "code": "the problem codes of docs/http.md",
    "director": "the directors of the agent's configuration",
    "freshness": "`fresh`, `stale`, `lost`, `unseen`",
    "kind": "the kinds of events; a fixed list",
    "model": "models of reports that a plan names",
    "outcome": "`accepted`, `duplicate`, `older`, `refused`",
    "rcode": "DNS response codes; a fixed list",
    "reason": "`home`, `overflow`, `overloaded`, `affinity`",
    "region": "the policy's regions",
    "release": "the release of this process; one value",
    "result": "a fixed list, in the metric's text",
    "state": "`answering`, `silent`",
    "transport": "`udp`, `tcp`",
    "type": "DNS types that are served, and `other`",
    "version": "versions of reports that a plan names",
    "why": "`rate_limited`, `rate_slipped`, `not_a_query`, `internal_error`, `tcp_accept_failed`, `tcp_connections`, "
    "`tcp_connections_per_client`, `tcp_idle`, `tcp_paused`, `tcp_query_bytes`, `tcp_unsent_bytes`",
    "zone": 'apexes of the policy\'s `dns` section, and "" for names of none',
}
"""Every label, and what bounds its values. Nothing that a client sends is ever a label."""


class Metric(Struct, frozen=True):
    """`name` is without the suffix that its kind adds (`_total`, `_bucket`, `_sum`, `_count`)."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...]
    roles: tuple[Role, ...]
    bounds: tuple[float, ...] = ()
    """A histogram's buckets, without the last, infinite one."""

    @property
    def exposed(self) -> tuple[str, ...]:
        """The names under which Prometheus stores it."""
        if self.kind == "counter":
            return (f"{self.name}_total",)
        if self.kind == "histogram":
            return tuple(f"{self.name}_{suffix}" for suffix in ("bucket", "sum", "count"))
        return (self.name,)
