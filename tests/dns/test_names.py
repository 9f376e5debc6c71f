"""What stands at which name: conformance of the zone (RFC 1034, 2308, 4592, 8020, 8482)."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset
import msgspec
import pytest

from director.core.policy import DnsName
from director.dns.answer import Answerer
from tests.dns.conftest import Ask
from tests.dns.fakes import APEX, EPOCH, MODEL, FakeView, policy, zone

CHAT = f"chat.eu.{APEX}"


def data(message: dns.message.Message) -> list[str]:
    return [item.to_text() for rrset in message.answer for item in rrset]


def assert_negative(message: dns.message.Message, ttl_s: int = 10) -> None:
    """An SOA in the authority section, with the TTL that RFC 2308 asks for, and nothing else."""
    assert not message.answer
    assert [(r.name.to_text(), r.rdtype, r.ttl) for r in message.authority] == [(f"{APEX}.", dns.rdatatype.SOA, ttl_s)]
    assert message.flags & dns.flags.AA


def test_an_address_query_names_one_region(ask: Ask) -> None:
    """One permitted region's address, the policy's TTL, authoritative, no recursion."""
    answer = ask(CHAT)
    assert data(answer) in (["192.0.2.10"], ["192.0.2.20"])
    assert answer.answer[0].ttl == 20
    assert answer.flags & dns.flags.AA
    assert not answer.flags & (dns.flags.RA | dns.flags.AD | dns.flags.CD)


def test_both_families_name_the_same_region(ask: Ask) -> None:
    """A and AAAA of one name come from one pick."""
    pairs = {("192.0.2.10", "2001:db8::10"), ("192.0.2.20", "2001:db8::20")}
    for i in range(30):
        subnet = f"203.0.{i}.0/24"
        pair = (data(ask(CHAT, "A", subnet=subnet))[0], data(ask(CHAT, "AAAA", subnet=subnet))[0])
        assert pair in pairs


def test_aaaa_of_a_name_with_ipv4_only_is_nodata(ask: Ask) -> None:
    """N1: NOERROR, no answer, SOA in authority; never NXDOMAIN."""
    answer = ask(f"us.{APEX}", "AAAA")
    assert answer.rcode() == dns.rcode.NOERROR
    assert_negative(answer)


def test_names_match_in_any_case_and_are_echoed_as_asked(ask: Ask) -> None:
    """N2: the question comes back byte for byte, and owner names follow it."""
    answer = ask("cHaT.eU.iNfEr.ExAmPlE.cOm")
    assert answer.question[0].name.to_text() == "cHaT.eU.iNfEr.ExAmPlE.cOm."
    assert answer.answer[0].name.to_text() == "cHaT.eU.iNfEr.ExAmPlE.cOm."
    assert data(answer)


@pytest.mark.parametrize("name", ["a.b.c", "b.c", "c", "wild.eu", "eu"])
@pytest.mark.parametrize("rdtype", ["A", "TXT", "NS", "MX", "ANY"])
def test_an_empty_non_terminal_is_nodata(ask: Ask, name: str, rdtype: str) -> None:
    """RFC 8020, 9156: what has something below it exists."""
    answer = ask(f"{name}.{APEX}", rdtype)
    assert answer.rcode() == dns.rcode.NOERROR
    assert_negative(answer)


@pytest.mark.parametrize("name", ["nobody", "x.chat.eu", "x.b.c", "ns9", "x.y.us"])
def test_a_name_that_is_not_there_is_nxdomain(ask: Ask, name: str) -> None:
    """NXDOMAIN with the SOA."""
    answer = ask(f"{name}.{APEX}")
    assert answer.rcode() == dns.rcode.NXDOMAIN
    assert_negative(answer)


@pytest.mark.parametrize("name", ["one.wild.eu", "two.three.wild.eu", "*.wild.eu"])
def test_a_wildcard_stands_for_every_name_below_it(ask: Ask, name: str) -> None:
    """RFC 4592: the asked name owns the answer."""
    answer = ask(f"{name}.{APEX}")
    assert data(answer)
    assert answer.answer[0].name.to_text() == f"{name}.{APEX}."
    assert_negative(ask(f"{name}.{APEX}", "MX"))


def test_the_apex_has_soa_ns_and_its_own_route(ask: Ask) -> None:
    """SOA with the plan's epoch as serial; NS with glue for hosts of the zone only; and the route of `@`."""
    soa = ask(APEX, "SOA")
    assert data(soa) == [f"ns1.{APEX}. dns\\.admin.example.com. {EPOCH} 14400 3600 1209600 10"]
    ns = ask(APEX, "NS")
    assert sorted(data(ns)) == [f"ns1.{APEX}.", "ns2.example.org."]
    glue = {item.to_text() for rrset in ns.additional for item in rrset}
    assert glue == {"192.0.2.53", "2001:db8::53"}
    assert data(ask(APEX, "A"))


def test_nameservers_have_their_addresses(ask: Ask) -> None:
    """A and AAAA of a nameserver inside the zone; NODATA for other types."""
    assert data(ask(f"ns1.{APEX}", "A")) == ["192.0.2.53"]
    assert data(ask(f"ns1.{APEX}", "AAAA")) == ["2001:db8::53"]
    assert_negative(ask(f"ns1.{APEX}", "TXT"))


def test_an_apex_can_be_its_own_nameserver() -> None:
    """The zone names itself as its server: its addresses stand at the apex, and go along with the NS record."""
    alone = zone(nameservers={APEX: ("192.0.2.53", "2001:db8::53")}, names={"us": DnsName("yank", MODEL)})
    answerer = Answerer(FakeView(policy(dns={APEX: alone})))
    found = {}
    for rdtype in ("NS", "A", "AAAA"):
        answer = answerer.answer(dns.message.make_query(APEX, rdtype).to_wire(), bytes(4), "udp")
        assert answer is not None
        message = dns.message.from_wire(answer.wire)
        found[rdtype] = (data(message), {item.to_text() for rrset in message.additional for item in rrset})
    assert found == {
        "NS": ([f"{APEX}."], {"192.0.2.53", "2001:db8::53"}),
        "A": (["192.0.2.53"], set()),
        "AAAA": (["2001:db8::53"], set()),
    }


def test_text_says_the_policys_words_and_the_region(ask: Ask) -> None:
    """TXT: each of the policy's, then the pick."""
    first, second = data(ask(CHAT, "TXT"))
    assert first == '"hello"'
    assert second in ('"region=eu-west-1"', '"region=eu-central-1"')


def test_caa_is_as_the_policy_says(ask: Ask) -> None:
    """CAA where the policy has it, NODATA elsewhere."""
    assert data(ask(CHAT, "CAA")) == ['0 issue "ca.example.net"']
    assert_negative(ask(f"us.{APEX}", "CAA"))


def test_a_negative_ttl_is_no_longer_than_the_soas_own() -> None:
    """RFC 2308, 5: resolvers keep a negative answer for the lesser of TTL and MINIMUM; both say the same."""
    for negative_ttl_s, ttl_s in ((900, 60), (60, 900)):
        view = FakeView(policy(dns={APEX: zone(negative_ttl_s=negative_ttl_s, ttl_s=ttl_s)}))
        answer = Answerer(view).answer(dns.message.make_query(f"nobody.{APEX}", "A").to_wire(), bytes(4), "udp")
        assert answer is not None
        message = dns.message.from_wire(answer.wire)
        assert_negative(message, ttl_s=60)
        assert message.authority[0].to_text().split()[-1] == "60"


@pytest.mark.parametrize(("labels", "rcode"), [(114, dns.rcode.NOERROR), (115, dns.rcode.FORMERR)])
def test_a_name_may_have_as_many_labels_as_fit(responder: Answerer, labels: int, rcode: int) -> None:
    """255 bytes: below a wildcard such a name has its data; a label more, and it is none."""
    wildcard = dns.name.from_text(f"wild.eu.{APEX}").to_wire()
    assert wildcard is not None
    name = b"\1a" * labels + wildcard
    answer = responder.answer(bytes(5) + b"\1" + bytes(6) + name + b"\0\1\0\1", bytes(4), "udp")
    assert answer is not None
    assert answer.rcode == rcode
    if len(name) <= 255:
        assert data(dns.message.from_wire(answer.wire))


@pytest.mark.parametrize("rdtype", ["HTTPS", "SVCB"])
def test_service_records_name_one_region_with_port_and_hints(ask: Ask, rdtype: str) -> None:
    """RFC 9460: target, port and hints belong to the region that A names for the same client."""
    expected = {
        "192.0.2.10": "1 eu-west-1.infer.example.net. ipv4hint=192.0.2.10 ipv6hint=2001:db8::10",
        "192.0.2.20": "1 eu-central-1.infer.example.net. port=8443 ipv4hint=192.0.2.20 ipv6hint=2001:db8::20",
    }
    for i in range(12):
        subnet = f"203.0.{i}.0/24"
        address = data(ask(CHAT, "A", subnet=subnet))[0]
        # dnspython prints values in quotes.
        assert [text.replace('"', "") for text in data(ask(CHAT, rdtype, subnet=subnet))] == [expected[address]]
    assert_negative(ask(f"us.{APEX}", rdtype))


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://us-east-1.infer.example.net", []),
        ("https://198.51.100.30:8443", ["1 . port=8443 ipv4hint=198.51.100.30"]),
        ("https://[2001:db8::30]", ["1 . ipv4hint=198.51.100.30"]),
    ],
    ids=["not https", "IPv4", "IPv6"],
)
def test_service_records_promise_what_is_there(endpoint: str, expected: list[str]) -> None:
    """None where the endpoint is not https; at a bare address the target is the name itself."""
    base = policy()
    region = msgspec.structs.replace(base.regions["us-east-1"], endpoint=endpoint)
    names = {"us": DnsName("yank", MODEL, https=True)}
    view = FakeView(policy(regions={**base.regions, "us-east-1": region}, dns={APEX: zone(names=names)}))
    answer = Answerer(view).answer(dns.message.make_query(f"us.{APEX}", "HTTPS").to_wire(), bytes(4), "udp")
    assert answer is not None
    assert [text.replace('"', "") for text in data(dns.message.from_wire(answer.wire))] == expected


def test_a_text_beyond_255_bytes_is_one_record_of_several_strings() -> None:
    """RFC 1035, 3.3.14: nothing is lost, and nothing is a record of its own."""
    names = {"long": DnsName("open", MODEL, txt=("a" * 255 + "b" * 255 + "c",))}
    answerer = Answerer(FakeView(policy(dns={APEX: zone(names=names)})))
    answer = answerer.answer(dns.message.make_query(f"long.{APEX}", "TXT").to_wire(), bytes(4), "tcp")
    assert answer is not None
    assert data(dns.message.from_wire(answer.wire))[0] == f'"{"a" * 255}" "{"b" * 255}" "c"'


@pytest.mark.parametrize("rdtype", ["MX", "TYPE1000", "DNSKEY", "RRSIG", "DS", "CNAME", "SRV"])
def test_a_type_that_is_not_there_is_nodata(ask: Ask, rdtype: str) -> None:
    """RFC 3597: unknown types are like any other."""
    answer = ask(CHAT, rdtype)
    assert answer.rcode() == dns.rcode.NOERROR
    assert_negative(answer)


def test_any_gets_the_least_there_is(ask: Ask) -> None:
    """RFC 8482: one synthesised HINFO, over either transport; NXDOMAIN where nothing stands."""
    assert data(ask(CHAT, "ANY")) == ['"RFC8482" ""']
    assert data(ask(CHAT, "ANY", transport="tcp")) == ['"RFC8482" ""']
    assert ask(f"nobody.{APEX}", "ANY").rcode() == dns.rcode.NXDOMAIN


@pytest.mark.parametrize("name", ["example.com", "org", ".", "example.net", "xinfer.example.com"])
def test_other_peoples_names_are_refused(ask: Ask, name: str) -> None:
    """REFUSED, without AA, with the reason for those who speak EDNS."""
    answer = ask(name, use_edns=0)
    assert answer.rcode() == dns.rcode.REFUSED
    assert not answer.flags & dns.flags.AA
    assert not answer.authority
    assert [o.code for o in answer.options if hasattr(o, "code")] == [20]


@pytest.mark.parametrize("rdtype", ["AXFR", "IXFR"])
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_transfers_are_refused(ask: Ask, rdtype: str, transport: str) -> None:
    """Answers differ by client: there is no zone to transfer."""
    answer = ask(APEX, rdtype, transport=transport)
    assert answer.rcode() == dns.rcode.REFUSED
    assert not answer.answer


def test_a_transfer_that_says_what_it_has_is_refused_as_well(responder: Answerer) -> None:
    """RFC 1995, 3: the asker's SOA stands in the authority section, which is no reason for FORMERR."""
    query = dns.message.make_query(APEX, "IXFR", use_edns=0)
    query.authority.append(dns.rrset.from_text(f"{APEX}.", 60, "IN", "SOA", "ns1. dns. 1 2 3 4 5"))
    answer = responder.answer(query.to_wire(), bytes(4), "tcp")
    assert answer is not None
    message = dns.message.from_wire(answer.wire)
    assert message.rcode() == dns.rcode.REFUSED
    assert [int(o.otype) for o in message.options] == [15]


def test_a_zone_below_a_zone_is_delegated() -> None:
    """RFC 4035, 3.1.4.1: its DS is asked of the zone above, which says NODATA, never NXDOMAIN; the rest is its own."""
    inner = f"eu.{APEX}"
    below = zone(names={"chat": DnsName("acme", MODEL)}, nameservers={f"ns1.{inner}": ("192.0.2.53",)})
    names = {"us": DnsName("yank", MODEL)}
    answerer = Answerer(FakeView(policy(dns={APEX: zone(names=names), inner: below})))

    def ask(name: str, rdtype: str) -> dns.message.Message:
        answer = answerer.answer(dns.message.make_query(name, rdtype).to_wire(), bytes(4), "udp")
        assert answer is not None
        return dns.message.from_wire(answer.wire)

    ds = ask(inner, "DS")
    assert ds.rcode() == dns.rcode.NOERROR
    assert ds.authority[0].name.to_text() == f"{APEX}."
    assert ask(inner, "SOA").answer[0].name.to_text() == f"{inner}."
    assert data(ask(f"chat.{inner}", "A"))
    assert ask(f"nobody.{inner}", "A").authority[0].name.to_text() == f"{inner}."
    assert ask(APEX, "DS").authority[0].name.to_text() == f"{APEX}."
