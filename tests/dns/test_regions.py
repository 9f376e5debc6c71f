"""Which region an answer names, for how long, and what is said when none is left."""

from __future__ import annotations

from collections import Counter

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import msgspec
import pytest

from director.core.decide import decide
from director.core.decision import Decision
from director.core.policy import Addresses, DnsName, Region
from director.core.request import Request
from director.dns.answer import Answerer
from tests.dns.conftest import Ask
from tests.dns.fakes import APEX, MODEL, NOW_MS, FakeView, plan, policy, zone
from tests.dns.test_names import assert_negative, data

ADDRESS = {"eu-west-1": "192.0.2.10", "eu-central-1": "192.0.2.20", "us-east-1": "198.51.100.30"}
CHAT = f"chat.eu.{APEX}"


def errors(message: dns.message.Message) -> list[tuple[int, str]]:
    return [(int(o.code), o.text or "") for o in message.options if isinstance(o, dns.edns.EDEOption)]


@pytest.mark.parametrize("name", ["chat.eu", "chat", "us"])
def test_dns_names_the_region_that_http_would(ask: Ask, view: FakeView, name: str) -> None:
    """The client network is the session: the same key, route and plan give the same region."""
    tenant = policy().dns[APEX].names[name].tenant
    for i in range(120):
        network = f"203.0.{i}.0/24"
        zone_name = view.zones.zone_of(f"203.0.{i}.0")
        assert view.table is not None
        decision = decide(view.table, Request(tenant, MODEL, zone_name, network), NOW_MS)
        assert isinstance(decision, Decision)
        assert data(ask(f"{name}.{APEX}", subnet=network)) == [ADDRESS[decision.target.region]]


def test_the_resolvers_address_stands_in_for_the_client(ask: Ask, view: FakeView) -> None:
    """Without client subnet the resolver's own /24 is zone and key."""
    for i in range(40):
        assert data(ask(CHAT, source=bytes((203, 0, i, 9)))) == data(ask(CHAT, subnet=f"203.0.{i}.0/24"))


def test_shares_are_kept_over_many_networks(ask: Ask) -> None:
    """Two equal regions get about half of the networks each."""
    seen = Counter(data(ask(CHAT, subnet=f"203.{i % 250}.{i // 250}.0/24"))[0] for i in range(1000))
    assert set(seen) == {"192.0.2.10", "192.0.2.20"}
    assert 420 <= seen["192.0.2.10"] <= 580


def test_several_answers_are_several_admitted_regions_in_a_steady_order(ask: Ask) -> None:
    """`answers: 2`: two different permitted regions, the pick first, the same order each time."""
    firsts = set()
    for i in range(20):
        subnet = f"203.0.{i}.0/24"
        once = data(ask(f"pair.eu.{APEX}", subnet=subnet))
        assert once == data(ask(f"pair.eu.{APEX}", subnet=subnet))
        assert sorted(once) == ["192.0.2.10", "192.0.2.20"]
        assert once[0] == data(ask(CHAT, subnet=subnet))[0]
        firsts.add(once[0])
    assert len(firsts) == 2


def test_several_answers_leave_out_a_region_that_admits_nothing(ask: Ask, view: FakeView) -> None:
    """With one of two regions lost there is one answer."""
    view.swap(plan(down=("eu-west-1",)))
    assert data(ask(f"pair.eu.{APEX}")) == ["192.0.2.20"]


def test_further_answers_are_regions_with_a_share_and_addresses() -> None:
    """`answers: 3`: no more than hold a share; an alias cannot stand beside others, and takes nobody's place."""
    names = {"three": DnsName("open", MODEL, answers=3)}
    plain = FakeView(policy(dns={APEX: zone(names=names)}))
    assert data(ask_of(plain, f"three.{APEX}", "A", "198.51.100.0/24")) == ["198.51.100.30"]
    assert sorted(data(ask_of(plain, f"three.{APEX}", "A", "203.0.113.0/24"))) == ["192.0.2.10", "192.0.2.20"]
    everywhere = {"default": dict.fromkeys(ADDRESS, 50)}
    regions = policy().regions
    regions = {
        **regions,
        "eu-west-1": msgspec.structs.replace(regions["eu-west-1"], addresses=Addresses(CNAME="lb.cloud.example.net")),
    }
    aliased = FakeView(policy(dns={APEX: zone(names=names)}, regions=regions, rtt_ms=everywhere))
    seen = set()
    for i in range(30):
        seen.add(frozenset(data(ask_of(aliased, f"three.{APEX}", "TXT", f"9.9.{i}.0/24"))))
    both = frozenset(('"region=eu-central-1"', '"region=us-east-1"'))
    assert seen == {frozenset(("lb.cloud.example.net.",)), both}


def test_all_addresses_of_a_region_are_told() -> None:
    """A region may have several of a family: they lead to one place."""
    view = with_region("us-east-1", Addresses(A=("198.51.100.30", "198.51.100.31")))
    assert data(ask_of(view, f"us.{APEX}", "A", "198.51.100.0/24")) == ["198.51.100.30", "198.51.100.31"]


def test_residency_holds_when_its_regions_are_lost(ask: Ask, view: FakeView) -> None:
    """N3: SERVFAIL, NODATA or the fallback, as configured; never NXDOMAIN, never another region."""
    view.swap(plan(down=("us-east-1",)))
    refused = ask(f"us.{APEX}", use_edns=0)
    assert refused.rcode() == dns.rcode.SERVFAIL
    assert not refused.answer
    assert errors(refused)[0][0] == 22
    assert "lost" in errors(refused)[0][1]
    nodata = ask(f"us-nodata.{APEX}")
    assert nodata.rcode() == dns.rcode.NOERROR
    assert_negative(nodata, ttl_s=5)
    assert data(ask(f"us-fallback.{APEX}")) == ["192.0.2.99"]
    assert data(ask(f"us-fallback.{APEX}", "AAAA")) == ["2001:db8::99"]
    assert data(ask(f"us-alias.{APEX}", "AAAA")) == ["sorry.example.org."]


def test_whatever_is_said_instead_of_a_region_says_why(ask: Ask, view: FakeView) -> None:
    """RFC 8914 on every form that `when_none` takes; a static plan is named beside it."""
    view.swap(plan(down=("us-east-1",)))
    for name in ("us", "us-nodata", "us-fallback", "us-alias"):
        view.static = False
        assert [code for code, _ in errors(ask(f"{name}.{APEX}", use_edns=0))] == [22]
        view.static = True
        assert [code for code, _ in errors(ask(f"{name}.{APEX}", use_edns=0))] == [22, 3]


def test_a_full_fleet_is_not_called_filtered(ask: Ask, view: FakeView) -> None:
    """The others are kept out for good, and the one that is permitted has room for half: 22, not 17, for the rest,
    and each answer holds for its own network alone."""
    view.swap(plan(us_east_1={"admit_captive": 0.5, "admit_overflow": ()}))
    told = Counter()
    for i in range(60):
        answer = ask(f"us.{APEX}", subnet=f"198.51.{i}.0/24")
        (subnet,) = [o for o in answer.options if isinstance(o, dns.edns.ECSOption)]
        assert subnet.scopelen == 24
        told[(dns.rcode.Rcode(answer.rcode()), *data(answer), *errors(answer))] += 1
    assert set(told) == {
        (dns.rcode.NOERROR, "198.51.100.30"),
        (dns.rcode.SERVFAIL, (22, "no region is left: overloaded")),
    }


def test_types_that_name_no_region_are_nodata_though_none_is_left() -> None:
    """Also where regions have aliases, so that every type takes a pick."""
    view = with_region("us-east-1", Addresses(CNAME="lb.cloud.example.net"))
    view.swap(plan(down=("us-east-1",)))
    assert_negative(ask_of(view, f"us.{APEX}", "MX", "198.51.100.0/24"), ttl_s=5)
    assert ask_of(view, f"us.{APEX}", "A", "198.51.100.0/24").rcode() == dns.rcode.SERVFAIL


def test_text_and_caa_are_said_though_no_region_is_left(ask: Ask, view: FakeView) -> None:
    """What does not depend on a region is not withheld with it."""
    view.swap(plan(down=("eu-west-1", "eu-central-1")))
    assert data(ask(CHAT, "TXT")) == ['"hello"']
    assert data(ask(CHAT, "CAA")) == ['0 issue "ca.example.net"']
    assert ask(CHAT, "A").rcode() == dns.rcode.SERVFAIL


def test_a_route_that_policy_closes_says_filtered() -> None:
    """EDE 17 when no region could ever be permitted: nobody need look for an outage."""
    base = policy()
    nowhere = msgspec.structs.replace(base.tenants["yank"], deny_regions=("us-east-1",))
    view = FakeView(policy(tenants={**base.tenants, "yank": nowhere}))
    answer = Answerer(view).answer(dns.message.make_query(f"us.{APEX}", "A", use_edns=0).to_wire(), bytes(4), "udp")
    assert answer is not None
    message = dns.message.from_wire(answer.wire)
    assert message.rcode() == dns.rcode.SERVFAIL
    assert errors(message) == [(17, "no region is left: residency, tenant_denied")]


def test_without_a_plan_everything_is_servfail() -> None:
    """D1: not ready is SERVFAIL with its reason; never an arbitrary region, never REFUSED."""
    answerer = Answerer(FakeView(table=False))
    for name in (CHAT, "other.org"):
        answer = answerer.answer(dns.message.make_query(name, "A", use_edns=0).to_wire(), bytes(4), "udp")
        assert answer is not None
        message = dns.message.from_wire(answer.wire)
        assert message.rcode() == dns.rcode.SERVFAIL
        assert errors(message) == [(14, "no plan yet")]


def test_without_a_plan_the_rest_of_the_answer_is_as_ever() -> None:
    """RFC 8906: OPT, DO, NSID, client subnet (of no use: scope 0) and cookie; the cookie lifts the limit."""
    answerer = Answerer(FakeView(table=False), nsid=b"replica-1")
    cookie, shown = b"12345678", []
    for transport in ("udp", "tcp"):
        options = [
            dns.edns.GenericOption(3, b""),
            dns.edns.ECSOption("203.0.113.0", 24),
            dns.edns.GenericOption(10, cookie),
            dns.edns.GenericOption(11, b""),
        ]
        query = dns.message.make_query(CHAT, "A", use_edns=0, want_dnssec=True, options=options)
        answer = answerer.answer(query.to_wire(), bytes(4), "tcp" if transport == "tcp" else "udp")
        assert answer is not None
        message = dns.message.from_wire(answer.wire)
        assert message.rcode() == dns.rcode.SERVFAIL
        assert message.ednsflags & dns.flags.DO
        found = {int(o.otype): o for o in message.options}
        assert set(found) == {3, 8, 10, 15} | ({11} if transport == "tcp" else set())
        assert found[3].to_wire() == b"replica-1"
        assert found[8].to_wire() == b"\0\1\x18\0\xcb\0\x71"
        cookie = found[10].to_wire() or b""
        shown.append(answer.cookie_valid)
    assert shown == [False, True]


@pytest.mark.parametrize(
    "wire",
    [
        dns.message.make_query(CHAT, "A", use_edns=1, options=[dns.edns.GenericOption(3, b"")]).to_wire(),
        dns.message.make_query(CHAT, "A", use_edns=0, options=[dns.edns.GenericOption(8, b"\0")]).to_wire(),
        dns.message.make_query(
            "version.bind", "TXT", "CH", use_edns=0, options=[dns.edns.GenericOption(3, b"")]
        ).to_wire(),
        bytes(5) + b"\0" * 7,
        bytes.fromhex("1234 0000 0000 0000 0000 0001 00 0029 04d0 00000000 0000"),
        b"\x12\x34\x78" + bytes(9),
    ],
    ids=["BADVERS", "malformed option", "class CH", "no question", "no question, EDNS", "opcode 15"],
)
def test_what_needs_no_plan_is_answered_alike_without_one(wire: bytes) -> None:
    """The plan decides about names of class IN, and about nothing else."""
    with_plan, without = (Answerer(FakeView(table=t), nsid=b"replica-1") for t in (True, False))
    expected, got = (a.answer(wire, bytes(4), "udp") for a in (with_plan, without))
    assert expected is not None
    assert got is not None
    assert got.wire == expected.wire


def test_a_static_plan_says_so(ask: Ask, view: FakeView) -> None:
    """The answer stands and carries the stale error; it goes with the condition."""
    view.static = True
    answer = ask(CHAT, use_edns=0)
    assert data(answer)
    assert [code for code, _ in errors(answer)] == [3]
    for name, rdtype in ((APEX, "SOA"), (APEX, "NS"), (f"nobody.{APEX}", "A"), (CHAT, "MX")):
        assert [code for code, _ in errors(ask(name, rdtype, use_edns=0))] == [3]
    view.static = False
    assert errors(ask(CHAT, use_edns=0)) == []


@pytest.mark.parametrize(
    "trouble",
    [
        plan(down=("eu-central-1",)),
        plan(eu_central_1={"breaker": "half_open"}),
        plan(eu_central_1={"admit_home": 0.7}),
        plan(eu_central_1={"ready_replicas": 0}),
    ],
    ids=["lost", "half open", "short of capacity", "no replicas"],
)
def test_ttl_shrinks_while_a_permitted_region_is_in_trouble(trouble: object) -> None:
    """N4: `ttl_trouble_s` for its names, and for no others."""
    view = FakeView(at=trouble)  # type: ignore[arg-type]
    answerer = Answerer(view)

    def ttl_s(name: str) -> int:
        answer = answerer.answer(dns.message.make_query(name, "A").to_wire(), bytes(4), "udp")
        assert answer is not None
        return dns.message.from_wire(answer.wire).answer[0].ttl

    assert ttl_s(CHAT) == 5
    assert ttl_s(f"us.{APEX}") == 20


def test_ttl_returns_when_shares_have_stood_still_for_one_ttl(ask: Ask, view: FakeView) -> None:
    """N4: short while shares move, and as long after as a resolver may keep what it has."""
    assert ask(CHAT).answer[0].ttl == 20
    view.swap(plan(eu_west_1={"capacity_well_tokens_per_s": 300_000.0}, epoch=1842))
    view.clock_ms += 1000
    assert ask(CHAT).answer[0].ttl == 5
    view.clock_ms += 19_000
    assert ask(CHAT).answer[0].ttl == 5
    view.clock_ms += 1_000
    assert ask(CHAT).answer[0].ttl == 20


def test_shares_that_hardly_move_leave_the_ttl_alone(ask: Ask, view: FakeView) -> None:
    """A hundredth of the traffic is nobody's reason to ask more often."""
    assert ask(CHAT).answer[0].ttl == 20
    view.swap(plan(eu_west_1={"capacity_well_tokens_per_s": 101_000.0}, epoch=1842))
    view.clock_ms += 1000
    assert ask(CHAT).answer[0].ttl == 20


def test_trouble_never_makes_a_ttl_longer() -> None:
    """`ttl_trouble_s` above `ttl_s` changes nothing."""
    names = {"us": DnsName("open", MODEL, ttl_s=2, ttl_trouble_s=5)}
    view = FakeView(policy(dns={APEX: zone(names=names)}), plan(down=("eu-west-1",)))
    assert ask_of(view, f"us.{APEX}", "A", "198.51.100.0/24").answer[0].ttl == 2


def test_the_serial_follows_the_epoch(ask: Ask, view: FakeView) -> None:
    """Modulo 2^32, as serial arithmetic wants."""
    view.swap(plan(epoch=(1 << 32) + 7))
    assert data(ask(APEX, "SOA"))[0].split()[2] == "7"


def with_region(name: str, addresses: Addresses) -> FakeView:
    base = policy()
    region = msgspec.structs.replace(base.regions[name], addresses=addresses)
    names = {"us": DnsName("yank", MODEL, txt=("x",)), "any": DnsName("open", MODEL), "@": DnsName("open", MODEL)}
    regions: dict[str, Region] = {**base.regions, name: region}
    return FakeView(policy(regions=regions, dns={APEX: zone(names=names)}))


def ask_of(view: FakeView, name: str, rdtype: str, subnet: str) -> dns.message.Message:
    address, _, bits = subnet.partition("/")
    option = dns.edns.ECSOption(address, int(bits))
    query = dns.message.make_query(name, rdtype, use_edns=0, options=[option])
    answer = Answerer(view).answer(query.to_wire(), bytes(4), "udp")
    assert answer is not None
    return dns.message.from_wire(answer.wire)


@pytest.mark.parametrize("rdtype", ["A", "AAAA", "TXT", "HTTPS", "MX", "CNAME", "ANY"])
def test_a_region_with_an_alias_is_a_cname_for_every_type(rdtype: str) -> None:
    """RFC 1034, 3.6.2: nothing stands beside a CNAME."""
    view = with_region("us-east-1", Addresses(CNAME="lb.cloud.example.net"))
    answer = ask_of(view, f"us.{APEX}", rdtype, "198.51.100.0/24")
    assert data(answer) == ["lb.cloud.example.net."]


def test_any_gets_the_least_where_the_answer_is_no_alias(ask: Ask, view: FakeView) -> None:
    """RFC 8482, 4.2: a synthesised HINFO only where no CNAME stands; with no region left as ever, fallback or not."""
    mixed = with_region("us-east-1", Addresses(CNAME="lb.cloud.example.net"))
    assert data(ask_of(mixed, f"any.{APEX}", "ANY", "203.0.113.0/24")) == ['"RFC8482" ""']
    assert data(ask_of(mixed, APEX, "ANY", "198.51.100.0/24")) == ['"RFC8482" ""']
    assert data(ask(f"us-alias.{APEX}", "ANY")) == ['"RFC8482" ""']
    view.swap(plan(down=("us-east-1",)))
    assert data(ask(f"us-alias.{APEX}", "ANY")) == ["sorry.example.org."]
    mixed.swap(plan(down=("us-east-1",)))
    assert data(ask_of(mixed, f"us.{APEX}", "ANY", "198.51.100.0/24")) == ['"RFC8482" ""']


def test_an_apex_never_answers_with_a_cname() -> None:
    """The alias region is left out at the apex: another permitted one is named."""
    view = with_region("us-east-1", Addresses(CNAME="lb.cloud.example.net"))
    answer = ask_of(view, APEX, "A", "198.51.100.0/24")
    assert data(answer)[0] in ("192.0.2.10", "192.0.2.20")
    assert data(ask_of(view, APEX, "SOA", "198.51.100.0/24"))
    fallback = DnsName("yank", MODEL, when_none="fallback", fallback=Addresses(CNAME="sorry.example.org"))
    lost = FakeView(policy(dns={APEX: zone(names={"@": fallback})}), plan(down=("us-east-1",)))
    assert_negative(ask_of(lost, APEX, "A", "198.51.100.0/24"), ttl_s=5)


def test_a_region_without_addresses_is_not_named() -> None:
    """Better another permitted region than a name that leads nowhere; with no other, as when nobody is left."""
    view = with_region("us-east-1", Addresses())
    assert data(ask_of(view, f"any.{APEX}", "A", "198.51.100.0/24"))[0] in ("192.0.2.10", "192.0.2.20")
    assert ask_of(view, f"us.{APEX}", "A", "198.51.100.0/24").rcode() == dns.rcode.SERVFAIL


def test_answers_are_counted_as_demand_for_their_region(view: FakeView) -> None:
    """Address answers only, passed on when the plan goes."""
    answerer = Answerer(view)
    for rdtype in ("A", "AAAA", "TXT", "HTTPS", "SOA"):
        query = dns.message.make_query(f"us.{APEX}", rdtype).to_wire()
        answer = answerer.answer(query, bytes(4), "udp")
        assert answer is not None
        assert answer.tally is not None
        answer.tally.udp += 1
    view.swap(plan(epoch=1842))
    answerer.refresh()
    # AAAA of an IPv4-only region answers nothing and sends nobody anywhere.
    assert view.demand == {"us-east-1": 1}
