"""What is asked: a request as the core sees it, and the route it belongs to."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class RouteKey(NamedTuple):
    """Requests with equal route keys get equal shares. Sorted tuples, so that equal routes are equal keys.

    `tenant` is the tenant policy's canonical tenant (`RoutingTable.tenant_class`): tenants with the same rules share
    their routes.
    """

    tenant: str
    residency: tuple[str, ...]
    """The request's own narrowing; () is none."""
    model: str
    version: str
    """Exact or a glob."""
    adapter: str | None
    client_zone: str


class Request(Struct, frozen=True):
    """A validated question. `key` is what the pick hashes: the session, else the request id, else random."""

    tenant: str
    model: str
    client_zone: str
    key: str
    version: str | None = None
    adapter: str | None = None
    residency: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    affinity: str | None = None
    """An affinity token as presented; it is verified by `decide`."""
