"""What the responder exports to Prometheus: by zone, type, response code and transport; latency; limits that bit.

The DNS side is a process of its own, so it answers scrapes on a port of its own, on the same loop that counts. Labels
come from the policy and from fixed lists, never from a query.
"""

from __future__ import annotations

import asyncio

from director.dns.server import Responder
from director.metrics import catalog, scrape
from director.metrics.process import process_text
from director.metrics.text import Page, labels


def exposition(responder: Responder) -> str:
    """The counters at this moment, in Prometheus's text format."""
    page = Page()
    counters = responder.counters
    page.many(
        catalog.DNS_ANSWERS,
        [
            (
                labels(catalog.DNS_ANSWERS, zone=kind.zone, type=kind.type, rcode=kind.rcode, transport=transport),
                count,
            )
            for (kind, transport), count in sorted(responder.answers().items())
        ],
    )
    dropped = sorted(counters.dropped.items())
    page.many(catalog.DNS_LIMITED, [(labels(catalog.DNS_LIMITED, why=why), count) for why, count in dropped])
    page.histogram(catalog.DNS_BATCH, counters.latency_counts, counters.latency_sum_s)
    page.one(catalog.DNS_BOOKS, counters.table_swaps)
    page.one(catalog.DNS_TCP_ACCEPTED, counters.tcp_accepted)
    page.one(catalog.DNS_TCP_CONNECTIONS, counters.tcp_connections)
    book = responder.answerer.book
    page.one(catalog.DNS_PLAN_EPOCH, book.table.plan.epoch if book is not None else 0)
    page.one(catalog.DNS_STATIC, book is not None and book.static)
    return page.text() + process_text()


async def serve_metrics(responder: Responder, host: str, port: int) -> asyncio.Server:
    """`GET /metrics` on a port of its own; anything else is 404. Raises OSError. Close the server to stop."""
    return await scrape.serve_metrics(lambda: exposition(responder), host, port)
