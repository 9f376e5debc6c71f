"""The protocol around the question: headers, EDNS, client subnet, cookies, transports (RFC 6891, 7871, 7873, 8906)."""

from __future__ import annotations

import struct

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.tsig
import dns.tsigkeyring
import pytest

from director.core.affinity import KeyRing
from director.core.policy import DnsName
from director.core.table import RoutingTable
from director.dns.answer import Answerer
from director.dns.limits import Limits
from director.dns.server import Responder
from director.dns.siphash import siphash24
from tests.dns.conftest import Ask
from tests.dns.fakes import APEX, KEYRING, MODEL, FakeView, plan, policy, zone
from tests.dns.test_fast import served
from tests.dns.test_names import assert_negative, data

CHAT = f"chat.eu.{APEX}"
SOURCE = b"\xcb\x00\x71\x05"
QUESTION = b"\x04chat\x02eu\x05infer\x07example\x03com\0\0\1\0\1"


def raw(answerer: Answerer, wire: bytes, source: bytes = SOURCE) -> bytes | None:
    answer = answerer.answer(wire, source, "udp")
    return answer.wire if answer is not None else None


def header(flags: int, *counts: int) -> bytes:
    return struct.pack("!6H", 0x1234, flags, *counts)


def option(message: dns.message.Message, kind: type) -> object:
    return next((o for o in message.options if isinstance(o, kind)), None)


@pytest.mark.parametrize("data", [b"", b"\0" * 11, header(0x8000, 1, 0, 0, 0) + QUESTION, header(0x8400, 0, 0, 0, 0)])
def test_what_is_no_query_gets_silence(responder: Answerer, data: bytes) -> None:
    """Too short for a header, or a response: answering would let two servers talk for ever."""
    assert raw(responder, data) is None


@pytest.mark.parametrize("opcode", range(1, 16))
def test_other_opcodes_are_not_implemented(responder: Answerer, opcode: int) -> None:
    """NOTIMP with the header alone, opcode and RD as they came (RFC 8906, 3.1.4)."""
    wire = raw(responder, header(opcode << 11 | 0x0100, 1, 0, 0, 0) + QUESTION)
    assert wire == header(0x8000 | opcode << 11 | 0x0100 | 4, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "wire",
    [
        header(0, 2, 0, 0, 0) + QUESTION + QUESTION,
        header(0, 0, 0, 0, 0),
        header(0, 1, 0, 0, 0),
        header(0, 1, 0, 0, 0) + QUESTION[:-1],
        header(0, 1, 0, 0, 0) + QUESTION + b"\0",
        header(0, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1",
        header(0, 1, 0, 0, 1) + QUESTION,
        header(0, 1, 0, 0, 2) + QUESTION + b"\0\0\x29\4\xd0\0\0\0\0\0\0" * 2,
        header(0, 1, 0, 1, 0) + QUESTION + b"\0\0\x29\4\xd0\0\0\0\0\0\0",
        header(0, 1, 0, 0, 1) + QUESTION + b"\1x\0\0\x29\4\xd0\0\0\0\0\0\0",
        header(0, 1, 0, 0, 1) + QUESTION + b"\xc0\x0c\0\x29\4\xd0\0\0\0\0\0\0",
        header(0, 1, 0, 0, 1) + QUESTION + b"\0\0\x29\4\xd0\0\0\0\0\xff\xff",
    ],
    ids=[
        "two questions",
        "no question",
        "no name",
        "cut",
        "trailing",
        "pointer",
        "no OPT",
        "two OPT",
        "OPT early",
        "OPT elsewhere",
        "OPT at a pointer",
        "OPT cut",
    ],
)
def test_malformed_queries_get_formerr(responder: Answerer, wire: bytes) -> None:
    """FORMERR, never silence and never an answer."""
    got = raw(responder, wire)
    assert got is not None
    assert dns.message.from_wire(got).rcode() == dns.rcode.FORMERR


@pytest.mark.parametrize("options", [b"\0\x64\0", b"\0\x64\xff\xff", b"\0\x03\0\0\0"], ids=["header", "huge", "spare"])
def test_options_that_end_too_early_are_formerr(responder: Answerer, options: bytes) -> None:
    """The OPT record itself was understood, so the answer has one (RFC 6891, 7)."""
    opt = b"\0\0\x29\4\xd0\0\0\0\0" + struct.pack("!H", len(options)) + options
    got = raw(responder, header(0, 1, 0, 0, 1) + QUESTION + opt)
    assert got is not None
    answer = dns.message.from_wire(got)
    assert (answer.rcode(), answer.edns, len(answer.question)) == (dns.rcode.FORMERR, 0, 1)


@pytest.mark.parametrize(
    "flag", [0x0010, 0x0020, 0x0040, 0x0080, 0x0200, 0x0400], ids=["CD", "AD", "Z", "RA", "TC", "AA"]
)
def test_flags_that_mean_nothing_in_a_query_change_nothing(responder: Answerer, flag: int) -> None:
    """The answer is the same, and none of them comes back (RFC 8906, 3.1.5; RFC 4035, 3.1.6)."""
    plain = raw(responder, header(0, 1, 0, 0, 0) + QUESTION)
    assert raw(responder, header(flag, 1, 0, 0, 0) + QUESTION) == plain


def test_recursion_desired_comes_back_and_is_not_available(responder: Answerer) -> None:
    """RD is copied; RA is clear."""
    got = raw(responder, header(0x0100, 1, 0, 0, 0) + QUESTION)
    assert got is not None
    assert got[2] & 1
    assert not got[3] & 0x80


@pytest.mark.parametrize("klass", [0, 3, 4, 254, 255])
def test_other_classes_are_refused(responder: Answerer, klass: int) -> None:
    """We serve class IN."""
    got = raw(responder, header(0, 1, 0, 0, 0) + QUESTION[:-2] + struct.pack("!H", klass))
    assert got is not None
    assert dns.message.from_wire(got).rcode() == dns.rcode.REFUSED


def test_no_opt_in_no_opt_out(ask: Ask) -> None:
    """RFC 6891, 7: only those who speak EDNS are spoken to in it."""
    assert ask(CHAT).edns == -1
    assert ask("other.org").edns == -1


def test_edns_is_answered_with_ours(ask: Ask) -> None:
    """Version 0, 1232 bytes, DO as it came, undefined flags clear, unknown options ignored."""
    unknown = dns.edns.GenericOption(65001, b"abc")
    answer = ask(CHAT, use_edns=0, ednsflags=dns.flags.DO | 0x0040, options=[unknown])
    assert (answer.edns, answer.payload, answer.ednsflags, answer.options) == (0, 1232, dns.flags.DO, ())
    assert data(answer)


@pytest.mark.parametrize("version", [1, 2, 100, 255])
def test_an_unknown_edns_version_gets_badvers(responder: Answerer, version: int) -> None:
    """RFC 6891, 6.1.3: no answer, our version, whatever the options and flags."""
    query = dns.message.make_query(CHAT, "A")
    query.use_edns(version, 0x8000, 1232, options=[dns.edns.GenericOption(10, b"not a cookie")])
    got = raw(responder, query.to_wire())
    assert got is not None
    answer = dns.message.from_wire(got)
    assert answer.rcode() == dns.rcode.BADVERS
    assert answer.edns == 0
    assert not answer.answer
    assert not answer.options


def test_nsid_is_told_to_those_who_ask(ask: Ask) -> None:
    """RFC 5001."""
    answer = ask(CHAT, use_edns=0, options=[dns.edns.GenericOption(3, b"")])
    nsid = option(answer, dns.edns.NSIDOption)
    assert isinstance(nsid, dns.edns.NSIDOption)
    assert nsid.nsid == b"replica-1"


def test_keepalive_is_for_tcp(ask: Ask) -> None:
    """RFC 7828: the idle limit in tenths of a second over TCP; ignored over UDP; FORMERR with data."""
    empty = dns.edns.GenericOption(11, b"")
    assert [o.to_wire() for o in ask(CHAT, use_edns=0, options=[empty], transport="tcp").options] == [b"\0\x64"]
    assert not ask(CHAT, use_edns=0, options=[empty]).options
    filled = dns.edns.GenericOption(11, b"\0\1")
    assert ask(CHAT, use_edns=0, options=[filled], transport="tcp").rcode() == dns.rcode.FORMERR


@pytest.mark.parametrize(
    ("name", "subnet", "scope"),
    [
        (f"chat.eu.{APEX}", "203.0.113.77/32", 24),
        (f"chat.eu.{APEX}", "203.0.113.0/24", 24),
        (f"chat.eu.{APEX}", "203.0.0.0/16", 16),
        (f"chat.eu.{APEX}", "2001:db8:1:2300::/56", 56),
        (f"chat.eu.{APEX}", "2001:db8:1:2345::1/128", 56),
        (f"us.{APEX}", "10.200.3.0/24", 9),
        (f"us.{APEX}", "10.200.3.4/32", 9),
        (f"us.{APEX}", "198.51.100.0/24", 24),
        (f"us.{APEX}", "8.8.8.0/24", 7),
        (f"nobody.{APEX}", "203.0.113.0/24", 0),
        (APEX, "203.0.113.0/24", 24),
        ("other.org", "203.0.113.0/24", 0),
    ],
)
def test_scope_is_as_narrow_as_what_was_used(ask: Ask, name: str, subnet: str, scope: int) -> None:
    """RFC 7871: the network where the pick decides, the zone's prefix where the zone alone does, else 0."""
    echoed = option(ask(name, subnet=subnet), dns.edns.ECSOption)
    assert isinstance(echoed, dns.edns.ECSOption)
    address, _, bits = subnet.partition("/")
    assert (echoed.address, echoed.srclen, echoed.scopelen) == (address, int(bits), scope)


def test_within_the_scope_all_clients_get_the_same(ask: Ask) -> None:
    """What a resolver may cache for a scope holds for every client in it."""
    answers = {tuple(data(ask(f"us.{APEX}", subnet=f"10.{i}.0.0/24"))) for i in range(128, 256, 9)}
    assert len(answers) == 1
    assert len({tuple(data(ask(CHAT, subnet=f"203.0.113.{i}/32"))) for i in range(0, 256, 17)}) == 1


def test_none_in_none_out(ask: Ask) -> None:
    """Without the option in the query there is none in the answer."""
    assert option(ask(CHAT, use_edns=0), dns.edns.ECSOption) is None


def test_slash_0_asks_not_to_use_the_client(ask: Ask) -> None:
    """The resolver's address decides, and the scope is 0."""
    for i in range(30):
        source = bytes((203, 0, i, 1))
        answer = ask(CHAT, subnet="0.0.0.0/0", source=source)
        echoed = option(answer, dns.edns.ECSOption)
        assert isinstance(echoed, dns.edns.ECSOption)
        assert (echoed.srclen, echoed.scopelen) == (0, 0)
        assert data(answer) == data(ask(CHAT, source=source))


@pytest.mark.parametrize("subnet", [b"\0\0\0\0", b"\0\1\0\0", b"\0\2\0\0"], ids=["family 0", "IPv4", "IPv6"])
def test_slash_0_of_any_family_comes_back_as_it_was_sent(responder: Answerer, subnet: bytes) -> None:
    """RFC 7871, 7.1.2; some clients leave the family out as well. dnspython does not read that: bytes are compared."""
    opt = b"\0\0\x29\4\xd0\0\0\0\0\0\x08" + b"\0\x08\0\4" + subnet
    got = raw(responder, header(0, 1, 0, 0, 1) + QUESTION + opt)
    plain = raw(responder, header(0, 1, 0, 0, 0) + QUESTION)
    assert got is not None
    assert plain is not None
    assert got[12:] == plain[12:] + opt


@pytest.mark.parametrize(
    "subnet",
    [
        b"",
        b"\0\1\x18",
        b"\0\1\x18\x18\xcb\0\x71",
        b"\0\1\x18\0\xcb\0",
        b"\0\1\x18\0\xcb\0\x71\0",
        b"\0\1\x21\0\xcb\0\x71\0\0",
        b"\0\1\x17\0\xcb\0\x71",
        b"\0\3\x18\0\xcb\0\x71",
        b"\0\0\x18\0\xcb\0\x71",
        b"\0\2\x81\0" + bytes(17),
    ],
    ids=["empty", "cut", "scope set", "short", "long", "/33", "bits beyond", "family 3", "family 0", "/129"],
)
def test_a_malformed_subnet_is_formerr(ask: Ask, subnet: bytes) -> None:
    """RFC 7871, 7.2.1."""
    answer = ask(CHAT, use_edns=0, options=[dns.edns.GenericOption(8, subnet)])
    assert answer.rcode() == dns.rcode.FORMERR
    assert answer.edns == 0


def test_two_subnets_are_formerr(ask: Ask) -> None:
    """One query speaks for one client."""
    one = dns.edns.ECSOption("203.0.113.0", 24)
    assert ask(CHAT, use_edns=0, options=[one, one]).rcode() == dns.rcode.FORMERR


CLIENT_COOKIE = bytes.fromhex("2464c4abcf10c957")


def cookie_of(message: dns.message.Message) -> bytes:
    found = option(message, dns.edns.CookieOption)
    assert isinstance(found, dns.edns.CookieOption)
    return found.client + found.server


def cookie(raw_bytes: bytes) -> dns.edns.Option:
    return dns.edns.GenericOption(10, raw_bytes)


def test_siphash_gives_the_published_values() -> None:
    """The vector of the algorithm's paper and the one of RFC 9018, A.1."""
    assert siphash24(bytes(range(16)), bytes(range(15))) == (0xA129CA6149BE45E5).to_bytes(8, "little")
    secret = bytes.fromhex("e5e973e5a6b2a43f48e7dc849e37bfcf")
    message = CLIENT_COOKIE + bytes.fromhex("010000005cf79f11") + bytes((198, 51, 100, 100))
    assert siphash24(secret, message).hex() == "1f8130c3eee29480"


def test_a_cookie_is_answered_and_recognised(responder: Answerer, view: FakeView) -> None:
    """A client part gets a whole one; shown again from the same address it is valid; from another it is not."""

    def exchange(shown: bytes, source: bytes = SOURCE) -> tuple[bytes, bool]:
        query = dns.message.make_query(CHAT, "A", use_edns=0, options=[cookie(shown)])
        answer = responder.answer(query.to_wire(), source, "udp")
        assert answer is not None
        return cookie_of(dns.message.from_wire(answer.wire)), answer.cookie_valid

    whole, valid = exchange(CLIENT_COOKIE)
    assert (whole[:8], len(whole), valid) == (CLIENT_COOKIE, 24, False)
    assert exchange(whole) == (whole, True)
    assert exchange(whole, b"\x01\x02\x03\x04")[1] is False
    assert exchange(whole[:-1] + bytes((whole[-1] ^ 1,)))[1] is False
    view.clock_ms += 1_900_000
    renewed, valid = exchange(whole)
    assert valid
    assert renewed[:8] == CLIENT_COOKIE
    assert renewed != whole
    view.clock_ms += 1_800_000
    assert exchange(whole)[1] is False
    assert exchange(renewed)[1] is True


def test_another_replica_recognises_our_cookie(responder: Answerer) -> None:
    """The secret comes from the shared key ring."""
    query = dns.message.make_query(CHAT, "A", use_edns=0, options=[cookie(CLIENT_COOKIE)])
    first = responder.answer(query.to_wire(), SOURCE, "udp")
    assert first is not None
    whole = cookie_of(dns.message.from_wire(first.wire))
    again = dns.message.make_query(CHAT, "A", use_edns=0, options=[cookie(whole)])
    other = Answerer(FakeView()).answer(again.to_wire(), SOURCE, "udp")
    assert other is not None
    assert other.cookie_valid


def test_a_cookie_that_is_not_ours_gets_one_that_is(responder: Answerer, view: FakeView) -> None:
    """RFC 7873, 5.2.4: another server's, a forged one, one from the future: answered in full, with a right one."""

    def exchange(shown: bytes) -> tuple[bytes, bool]:
        query = dns.message.make_query(CHAT, "A", use_edns=0, options=[cookie(shown)])
        answer = responder.answer(query.to_wire(), SOURCE, "udp")
        assert answer is not None
        message = dns.message.from_wire(answer.wire)
        assert data(message)
        return cookie_of(message), answer.cookie_valid

    right, _ = exchange(CLIENT_COOKIE)
    view.clock_ms += 3_600_000
    ahead, _ = exchange(CLIENT_COOKIE)
    view.clock_ms -= 3_600_000
    for shown in (CLIENT_COOKIE + bytes(8), CLIENT_COOKIE + bytes(16), CLIENT_COOKIE + bytes(32), ahead):
        assert exchange(shown) == (right, False)
    assert exchange(right) == (right, True)


def test_cookies_rotate_with_the_key_ring() -> None:
    """One made under the last key holds while the ring has it and no longer; new ones are made under the new. On the
    hot path too."""
    view = FakeView()
    old, new = ("k1", KEYRING.keys["k1"]), ("k2", bytes(32))
    responder = Responder(view, limits=Limits(responses_per_s=1, slip=1))

    def exchange(shown: bytes) -> tuple[bytes, bool]:
        """The cookie that comes back; whether the one shown lifted the limit, each time it was shown."""
        query = dns.message.make_query(CHAT, "A", use_edns=0, options=[cookie(shown)]).to_wire()
        seen = set()
        for _ in range(4):
            wire = served(responder, query, SOURCE)[0]
            assert wire is not None
            message = dns.message.from_wire(wire)
            seen.add((cookie_of(message), not message.flags & dns.flags.TC))
        (one,) = seen
        return one

    def turn_to(ring: KeyRing, epoch: int) -> None:
        view.table = RoutingTable(plan(epoch=epoch), view.policy, ring)
        ask_without()

    def ask_without() -> None:
        """Somebody's query without a cookie: the limit is reached, and the hot path knows the name."""
        served(responder, dns.message.make_query(CHAT, "A").to_wire(), SOURCE)

    ask_without()
    first, _ = exchange(CLIENT_COOKIE)
    assert exchange(first) == (first, True)
    turn_to(KeyRing("k2", dict((old, new))), 1842)
    assert exchange(first) == (first, True)
    second, _ = exchange(CLIENT_COOKIE)
    assert second != first
    turn_to(KeyRing("k2", dict((new,))), 1843)
    assert exchange(first) == (second, False)
    assert exchange(second) == (second, True)


@pytest.mark.parametrize("length", [0, 1, 7, 9, 15, 41, 60])
def test_a_cookie_of_impossible_length_is_formerr(ask: Ask, length: int) -> None:
    """RFC 7873, 5.2.2."""
    assert ask(CHAT, use_edns=0, options=[cookie(bytes(length))]).rcode() == dns.rcode.FORMERR


def test_a_query_for_nothing_but_a_cookie_gets_one(responder: Answerer) -> None:
    """RFC 7873, 5.4: no question, NOERROR, a cookie."""
    query = dns.message.Message()
    query.flags = 0  # type: ignore[assignment]
    query.use_edns(0, options=[cookie(CLIENT_COOKIE)])
    got = raw(responder, query.to_wire())
    assert got is not None
    answer = dns.message.from_wire(got)
    assert answer.rcode() == dns.rcode.NOERROR
    assert cookie_of(answer)[:8] == CLIENT_COOKIE


def test_a_signed_query_is_told_that_its_key_is_unknown(responder: Answerer) -> None:
    """RFC 8945, 5.2.1: NOTAUTH, and a TSIG with BADKEY that carries no signature."""
    query = dns.message.make_query(APEX, "AXFR")
    query.use_tsig(dns.tsigkeyring.from_text({"key.": "c2VjcmV0c2VjcmV0"}), "key.", algorithm=dns.tsig.HMAC_SHA256)
    got = raw(responder, query.to_wire())
    assert got is not None
    with pytest.raises(dns.tsig.PeerBadKey):
        dns.message.from_wire(got, keyring=query.keyring, request_mac=query.mac)
    assert got[3] & 0xF == dns.rcode.NOTAUTH


def test_an_answer_that_does_not_fit_is_cut_at_the_question() -> None:
    """TC, no partial sets; whole over TCP; whole over UDP for those who can take it."""
    words = tuple(f"{i}" * 200 for i in range(5))
    names = {"long": DnsName("open", MODEL, txt=words)}
    answerer = Answerer(FakeView(policy(dns={APEX: zone(names=names)})))

    def ask(transport: str, **options: object) -> dns.message.Message:
        query = dns.message.make_query(f"long.{APEX}", "TXT", **options)  # type: ignore[arg-type]
        answer = answerer.answer(query.to_wire(), SOURCE, transport)  # type: ignore[arg-type]
        assert answer is not None
        return dns.message.from_wire(answer.wire)

    for cut in (ask("udp"), ask("udp", use_edns=0, payload=600), ask("udp", use_edns=0, payload=0)):
        assert cut.flags & dns.flags.TC
        assert cut.question
        assert not cut.answer
        assert not cut.authority
    assert len(data(ask("tcp"))) == 6
    whole = ask("udp", use_edns=0, payload=4096)
    assert len(data(whole)) == 6
    assert not whole.flags & dns.flags.TC


@pytest.mark.parametrize("payload", [0, 100, 511, 512])
def test_a_size_below_512_counts_as_512(payload: int) -> None:
    """RFC 6891, 6.2.3. Over the hot path as well."""
    names = {"long": DnsName("open", MODEL, txt=("x" * 250,))}
    responder = Responder(FakeView(policy(dns={APEX: zone(names=names)})), limits=Limits(responses_per_s=0))
    query = dns.message.make_query(f"long.{APEX}", "TXT", use_edns=0, payload=payload).to_wire()
    for _ in range(2):
        wire, _ = served(responder, query, SOURCE)
        assert wire is not None
        assert 300 < len(wire) <= 512
        assert len(data(dns.message.from_wire(wire))) == 2


def test_glue_that_does_not_fit_is_left_out_without_a_flag() -> None:
    """RFC 2181, 9: TC is for sets that are required."""
    nameservers = {f"a-rather-long-host-name-{i:02d}.{APEX}": ("192.0.2.1", "2001:db8::1") for i in range(9)}
    answerer = Answerer(FakeView(policy(dns={APEX: zone(nameservers=nameservers)})))
    answer = answerer.answer(dns.message.make_query(APEX, "NS").to_wire(), SOURCE, "udp")
    assert answer is not None
    message = dns.message.from_wire(answer.wire)
    assert len(data(message)) == 9
    assert not message.additional
    assert not message.flags & dns.flags.TC


def test_a_mapped_address_counts_as_ipv4(ask: Ask) -> None:
    """A dual-stack socket shows IPv4 clients as ::ffff:a.b.c.d."""
    mapped = bytes(10) + b"\xff\xff" + SOURCE
    assert data(ask(CHAT, source=mapped)) == data(ask(CHAT, source=SOURCE))


def test_negative_answers_of_a_zone_without_its_own_hosts(ask: Ask) -> None:
    """NS hosts elsewhere have no data here."""
    assert_negative(ask(f"ns2.{APEX}"))
