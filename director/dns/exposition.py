"""What the responder exports to Prometheus: by zone, type, response code and transport; latency; limits that bit.

The DNS side is a process of its own, so it answers scrapes on a port of its own, on the same loop that counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from director.dns.metrics import LATENCY_BOUNDS_S
from director.dns.server import Responder

REQUEST_BYTES_MAX = 8192
REQUEST_S_MAX = 5.0


class DnsCollector(Collector):
    """The counters at the moment of a scrape. Labels come from the policy and from fixed lists, never from a query."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder

    def collect(self) -> Iterator[Metric]:
        counters = self._responder.counters
        answers = CounterMetricFamily(
            "director_dns_answers", "Answers sent.", labels=["zone", "type", "rcode", "transport"]
        )
        for (kind, transport), count in sorted(self._responder.answers().items()):
            answers.add_metric([kind.zone, kind.type, kind.rcode, transport], count)
        yield answers
        limited = CounterMetricFamily(
            "director_dns_limited",
            "Queries and connections that a limit or a fault took an answer from.",
            labels=["why"],
        )
        for why, count in sorted(counters.dropped.items()):
            limited.add_metric([why], count)
        yield limited
        latency = HistogramMetricFamily(
            "director_dns_batch_seconds",
            "UDP: from the wake-up that read a query to the end of its batch; an upper bound of its service time.",
        )
        buckets: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip((*map(str, LATENCY_BOUNDS_S), "+Inf"), counters.latency_counts, strict=True):
            total += count
            buckets.append((bound, total))
        latency.add_metric([], buckets, counters.latency_sum_s)
        yield latency
        yield CounterMetricFamily("director_dns_books", "Changes of plan, zones or staleness.", counters.table_swaps)
        yield CounterMetricFamily("director_dns_tcp_accepted", "TCP connections accepted.", counters.tcp_accepted)
        yield GaugeMetricFamily("director_dns_tcp_connections", "TCP connections open.", counters.tcp_connections)
        book = self._responder.answerer.book
        yield GaugeMetricFamily(
            "director_dns_plan_epoch", "Epoch of the plan that answers rest on; 0 is none.", _epoch(self._responder)
        )
        yield GaugeMetricFamily("director_dns_static", "Whether answers are static.", int(bool(book and book.static)))


def _epoch(responder: Responder) -> int:
    book = responder.answerer.book
    return book.table.plan.epoch if book is not None else 0


def exposition(responder: Responder) -> bytes:
    """The metrics in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(DnsCollector(responder))
    return generate_latest(registry)


async def serve_metrics(responder: Responder, host: str, port: int) -> asyncio.Server:
    """`GET /metrics` on a port of its own; anything else is 404. Raises OSError. Close the server to stop."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                found = head.split(b" ", 2)[:2] == [b"GET", b"/metrics"]
                body = exposition(responder) if found else b""
                status = b"200 OK" if found else b"404 Not Found"
                writer.write(
                    b"HTTP/1.1 " + status + b"\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                    b"Connection: close\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
                )
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)
