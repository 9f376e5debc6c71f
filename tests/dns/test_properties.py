"""Over generated plans: one decision with HTTP, residency without exception, answers that do not differ by path."""

from __future__ import annotations

import asyncio
import random

import dns.edns
import dns.message
import dns.rcode
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from director.core.decide import decide
from director.core.decision import Decision
from director.core.plan import Plan
from director.core.request import Request
from director.dns.answer import Answerer
from director.dns.limits import Limits
from director.dns.server import serve_dns
from tests.dns.fakes import APEX, MODEL, NOW_MS, FakeView, deployment, plan
from tests.dns.test_names import data

REGIONS = ("eu-west-1", "eu-central-1", "us-east-1")
ADDRESSES = {"192.0.2.10": "eu-west-1", "192.0.2.20": "eu-central-1", "198.51.100.30": "us-east-1"}
RATIO = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
ROUNDS = st.lists(RATIO, max_size=2).map(tuple)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Regions fresh, stale or lost; breakers in any state; admissions and capacities of all kinds; two versions."""
    base = plan()
    deployments = []
    for region in REGIONS:
        for version in draw(st.sampled_from([("2026-08-14",), ("2026-08-14", "2026-10-01"), ()])):
            capacity = draw(st.sampled_from([0.0, 1e4, 1e5, 3e5]))
            made = deployment(
                region,
                ready_replicas=draw(st.sampled_from([0, 4, 4, 4])),
                capacity_tokens_per_s=capacity,
                capacity_well_tokens_per_s=max(capacity, draw(st.sampled_from([0.0, 1e5]))),
                headroom_tokens_per_s=draw(st.sampled_from([0.0, 5e4])),
                breaker=draw(st.sampled_from(["closed", "closed", "open", "half_open"])),
                admit_home=draw(RATIO),
                admit_overflow=draw(ROUNDS),
                admit_overload=draw(ROUNDS),
            )
            deployments.append(msgspec.structs.replace(made, version=version))
    regions = tuple(
        msgspec.structs.replace(r, freshness=draw(st.sampled_from(["fresh", "fresh", "stale", "lost"])))
        for r in base.regions
    )
    return msgspec.structs.replace(base, regions=regions, deployments=tuple(deployments))


def addresses(answerer: Answerer, name: str, network: str) -> tuple[int, list[str]]:
    address, _, bits = network.partition("/")
    query = dns.message.make_query(name, "A", use_edns=0, options=[dns.edns.ECSOption(address, int(bits))])
    answer = answerer.answer(query.to_wire(), bytes(4), "udp")
    assert answer is not None
    message = dns.message.from_wire(answer.wire)
    return message.rcode(), data(message)


@settings(max_examples=200, deadline=None)
@given(plans(), st.lists(st.integers(0, 0xFFFFFF), min_size=1, max_size=8))
def test_under_any_plan_dns_and_http_name_the_same_region(at: Plan, networks: list[int]) -> None:
    """For every name, or both refuse; and what is named is what the tenant's residency permits."""
    view = FakeView(at=at)
    answerer = Answerer(view)
    permitted = {"acme": set(REGIONS[:2]), "yank": {"us-east-1"}, "open": set(REGIONS)}
    assert view.table is not None
    for value in networks:
        first = f"{value >> 16}.{value >> 8 & 255}.{value & 255}.0"
        network = f"{first}/24"
        for label, tenant in (("chat.eu", "acme"), ("us", "yank"), ("chat", "open")):
            request = Request(tenant, MODEL, view.zones.zone_of(first), network)
            decision = decide(view.table, request, NOW_MS)
            rcode, found = addresses(answerer, f"{label}.{APEX}", network)
            named = [ADDRESSES[a] for a in found]
            if isinstance(decision, Decision):
                assert named == [decision.target.region]
            else:
                assert (rcode, named) == (dns.rcode.SERVFAIL, [])
            assert set(named) <= permitted[tenant]
        _, several = addresses(answerer, f"pair.eu.{APEX}", network)
        assert {ADDRESSES[a] for a in several} <= permitted["acme"]
        assert len(set(several)) == len(several) <= 2
        assert several[:1] == addresses(answerer, f"chat.eu.{APEX}", network)[1]


async def test_any_bytes_over_tcp_get_answers_or_an_end() -> None:
    """Noise, cut anywhere, and real queries between: the connection may close, the server goes on."""
    responder = await serve_dns(FakeView(), "127.0.0.1", 0, limits=Limits(tcp_connections_per_client_max=1000))
    rng = random.Random(11)
    query = dns.message.make_query(f"us.{APEX}", "A").to_wire()
    framed = len(query).to_bytes(2, "big") + query
    for _ in range(150):
        _, writer = await asyncio.open_connection("127.0.0.1", responder.port)
        parts = [framed if rng.random() < 0.5 else rng.randbytes(rng.randrange(1, 60)) for _ in range(6)]
        for part in parts:
            at = rng.randrange(len(part))
            writer.write(part[:at])
            writer.write(part[at:])
            await asyncio.sleep(0)
        writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", responder.port)
    writer.write(framed)
    async with asyncio.timeout(5):
        length = int.from_bytes(await reader.readexactly(2), "big")
        assert data(dns.message.from_wire(await reader.readexactly(length))) == ["198.51.100.30"]
    writer.close()
    assert "internal_error" not in responder.counters.dropped
    await responder.stop()
