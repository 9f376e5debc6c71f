"""SRV records from a resolver on a real socket: hosts and ports, looked up again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import dns.asyncresolver
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.resolver
import dns.rrset
import pytest

from director.agent.collect import Collector
from director.agent.config import AgentConfig, DeploymentConfig, DirectorEndpoint, Source
from director.agent.discovery import DiscoveryFailed, DnsServices
from tests.agent.dumps import vllm_dump
from tests.agent.servers import saying, serving

NAME = "_http._tcp.llama.llm.svc"
"""As a Kubernetes headless service has it, without the cluster's domain."""


class Resolver(asyncio.DatagramProtocol):
    """Knows the SRV records of a few absolute names; anything else does not exist."""

    def __init__(self, records: dict[str, list[str]]) -> None:
        self.records = records

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        question = query.question[0]
        texts = self.records.get(question.name.to_text(omit_final_dot=True))
        if texts is None:
            response.set_rcode(dns.rcode.NXDOMAIN)
        else:
            response.answer.append(dns.rrset.from_text(question.name, 5, "IN", "SRV", *texts))
        self._transport.sendto(response.to_wire(), addr)


@asynccontextmanager
async def resolving(monkeypatch: pytest.MonkeyPatch, records: dict[str, list[str]]) -> AsyncIterator[Resolver]:
    """A resolver that this process asks, with a search list of one domain."""
    transport, resolver = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Resolver(records), local_addr=("127.0.0.1", 0)
    )
    ours = dns.asyncresolver.Resolver(configure=False)
    ours.nameservers, ours.port = ["127.0.0.1"], transport.get_extra_info("sockname")[1]
    ours.search = [dns.name.from_text("cluster.local")]
    monkeypatch.setattr(dns.asyncresolver, "default_resolver", ours)
    try:
        yield resolver
    finally:
        transport.close()


async def test_every_host_and_port_of_a_service_is_a_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two replicas on two ports of one host, scraped; the search list completes the name."""
    async with serving(saying(vllm_dump())) as one, serving(saying(vllm_dump())) as two:
        records = [f"0 50 {url.rsplit(':', 1)[1]} localhost." for url in (one, two)]
        async with resolving(monkeypatch, {f"{NAME}.cluster.local": records}):
            deployment = DeploymentConfig("m", "1", (Source(dns_srv=NAME),), engine="vllm")
            collector = Collector(AgentConfig("r", (DirectorEndpoint("http://127.0.0.1:9", token="t"),), (deployment,)))
            await collector.scrape_once()
            report = collector.summaries()[0].report
            await collector.close()
    assert (report.replicas.ready, report.replicas.total, report.running) == (2, 2, 6.0)


async def test_records_are_asked_for_again_and_a_name_that_vanishes_takes_no_replica_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each lookup is a new question; one that fails is a problem with the name in it."""
    services = DnsServices(NAME, "http", "/metrics")
    async with resolving(monkeypatch, {NAME: ["0 50 8000 pod-a."]}) as resolver:
        assert await services.find() == ("http://pod-a:8000/metrics",)
        resolver.records = {NAME: ["0 50 8000 pod-b.", "10 50 8001 pod-a."]}
        assert await services.find() == ("http://pod-a:8001/metrics", "http://pod-b:8000/metrics")
        resolver.records = {}
        with pytest.raises(DiscoveryFailed, match=NAME):
            await services.find()


async def test_a_service_that_is_decidedly_not_offered_has_no_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 2782: one record whose target is the root."""
    async with resolving(monkeypatch, {NAME: ["0 0 0 ."]}):
        assert await DnsServices(NAME, "http", "/metrics").find() == ()
