"""dnspython as the other implementation: the same zone as static records, the same questions, the same answers."""

from __future__ import annotations

import dns.message
import dns.name
import dns.node
import dns.rcode
import dns.rdatatype
import dns.rrset
import dns.zone
from hypothesis import given, settings
from hypothesis import strategies as st

from director.core.decide import decide
from director.core.decision import Decision
from director.core.policy import DnsName
from director.core.request import Request
from director.dns.answer import Answerer
from tests.dns.fakes import APEX, MODEL, NOW_MS, FakeView, policy, zone

SOURCE = b"\xcb\x00\x71\x05"
NETWORK, CLIENT_ZONE = "203.0.113.0/24", "europe"
LABELS = st.sampled_from(["a", "b", "c", "*"])
RELATIVE = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
ROUTES = st.builds(
    DnsName,
    tenant=st.sampled_from(["acme", "yank", "open"]),
    model=st.just(MODEL),
    ttl_s=st.integers(1, 300),
    caa=st.sampled_from([(), ('0 issue "ca.example.net"', '0 iodef "mailto:a@example.net"')]),
    txt=st.sampled_from([(), ("one", "two words")]),
)
TYPES = st.sampled_from(["A", "AAAA", "TXT", "CAA", "NS", "SOA", "MX", "TYPE999"])


def static_zone(view: FakeView) -> dns.zone.Zone:
    """What our zone holds for one client, written down as a zone file."""
    dns_zone = view.policy.dns[APEX]
    lines = [
        f"$ORIGIN {APEX}.",
        f"@ {dns_zone.ttl_s} IN SOA ns1 dns\\.admin.example.com. 1841 14400 3600 1209600 10",
        f"@ {dns_zone.ttl_s} IN NS ns1",
        f"@ {dns_zone.ttl_s} IN NS ns2.example.org.",
        f"ns1 {dns_zone.ttl_s} IN A 192.0.2.53",
        f"ns1 {dns_zone.ttl_s} IN AAAA 2001:db8::53",
    ]
    for relative, name in dns_zone.names.items():
        assert view.table is not None
        decision = decide(view.table, Request(name.tenant, name.model, CLIENT_ZONE, NETWORK), NOW_MS)
        assert isinstance(decision, Decision)
        region = decision.target.region
        addresses = view.policy.regions[region].addresses
        lines += [f"{relative} {name.ttl_s} IN A {a}" for a in addresses.A]
        lines += [f"{relative} {name.ttl_s} IN AAAA {a}" for a in addresses.AAAA]
        lines += [f'{relative} {name.ttl_s} IN TXT "{text}"' for text in (*name.txt, f"region={region}")]
        lines += [f"{relative} {name.ttl_s} IN CAA {text}" for text in name.caa]
    return dns.zone.from_text("\n".join(lines), origin=f"{APEX}.", relativize=False)


def oracle(static: dns.zone.Zone, qname: dns.name.Name, rdtype: str) -> tuple[int, dict[str, set[str]], bool]:
    """(response code, answers with TTL, whether an SOA stands in the authority section), by RFC 1034, 4.3.2."""
    apex = static.origin
    assert apex is not None
    if not qname.is_subdomain(apex):
        return dns.rcode.REFUSED, {}, False
    exists = {name for node in static for name in _up_to(node, apex)}
    node: dns.node.Node | None
    if qname in exists:
        node = static.get_node(qname)
    else:
        encloser = qname
        while encloser not in exists:
            encloser = encloser.parent()
        star = dns.name.Name(("*",)) + encloser
        if star not in exists:
            return dns.rcode.NXDOMAIN, {}, True
        node = static.get_node(star)
    rdataset = node.get_rdataset(1, dns.rdatatype.from_text(rdtype)) if node is not None else None
    if rdataset is None:
        return dns.rcode.NOERROR, {}, True
    return dns.rcode.NOERROR, {f"{qname} {rdataset.ttl}": {item.to_text() for item in rdataset}}, False


def _up_to(name: dns.name.Name, apex: dns.name.Name) -> list[dns.name.Name]:
    found = [name]
    while found[-1] != apex:
        found.append(found[-1].parent())
    return found


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(RELATIVE, ROUTES, min_size=1, max_size=6),
    st.lists(st.tuples(RELATIVE | st.sampled_from(["@", "ns1", "x.y", ".."]), TYPES), min_size=1, max_size=15),
)
def test_generated_zones_answer_as_dnspython_reads_them(
    names: dict[str, DnsName], questions: list[tuple[str, str]]
) -> None:
    """Code, records, TTLs, owner names and the SOA of negative answers agree for every question."""
    view = FakeView(policy(dns={APEX: zone(names=names)}))
    static = static_zone(view)
    answerer = Answerer(view)
    for relative, rdtype in questions:
        special = {"@": APEX, "..": "example.com"}
        qname = dns.name.from_text(special.get(relative) or f"{relative}.{APEX}")
        query = dns.message.make_query(qname, rdtype)
        answer = answerer.answer(query.to_wire(), SOURCE, "udp")
        assert answer is not None
        message = dns.message.from_wire(answer.wire)
        found = {f"{rrset.name} {rrset.ttl}": {item.to_text() for item in rrset} for rrset in message.answer}
        has_soa = any(rrset.rdtype == dns.rdatatype.SOA for rrset in message.authority)
        assert (message.rcode(), found, has_soa) == oracle(static, qname, rdtype), (relative, rdtype)
