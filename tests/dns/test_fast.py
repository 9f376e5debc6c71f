"""The hot path gives the complete path's bytes, or leaves the query to it."""

from __future__ import annotations

import dns.edns
import dns.message
from hypothesis import example, given, settings
from hypothesis import strategies as st

from director.dns.answer import Answerer
from director.dns.limits import Limits
from director.dns.server import Responder
from tests.dns.fakes import APEX, FakeView, plan

NAMES = st.sampled_from(
    [
        f"{n}.{APEX}"
        for n in ("chat.eu", "CHAT.eu", "chat", "pair.eu", "us", "x.wild.eu", "eu", "nobody", "ns1", "us-alias")
    ]
    + [APEX, "other.org", "."]
)
TYPES = st.sampled_from(["A", "AAAA", "TXT", "HTTPS", "SOA", "NS", "MX", "ANY", "AXFR", "DS", "TYPE300"])
SUBNETS = st.sampled_from(
    ["203.0.113.0/24", "10.1.2.0/24", "198.51.0.0/16", "0.0.0.0/0", "2001:db8:1:2::/56", "9.9.9.9/32"]
)
SOURCES = st.sampled_from([b"\xcb\x00\x71\x05", b"\x0a\x00\x00\x01", bytes.fromhex("20010db8000100000000000000000001")])
FLAGS = st.sampled_from([0, 0x0100, 0x0110, 0x0020, 0x0040, 0x0200, 0x0400, 0x2000])


@st.composite
def queries(draw: st.DrawFn) -> bytes:
    """A query as real ones are, in all the ways that both paths must agree on; some with a byte changed."""
    query = dns.message.make_query(draw(NAMES), draw(TYPES), flags=draw(FLAGS))
    if draw(st.booleans()):
        options: list[dns.edns.Option] = []
        if draw(st.booleans()):
            address, _, bits = draw(SUBNETS).partition("/")
            options.append(dns.edns.ECSOption(address, int(bits)))
        if draw(st.booleans()):
            options.append(dns.edns.GenericOption(10, draw(st.sampled_from([b"12345678", b"1" * 24, b"12"]))))
        if draw(st.booleans()):
            options.append(dns.edns.GenericOption(3, b""))
        payload = draw(st.sampled_from([0, 512, 700, 1232, 4096]))
        query.use_edns(
            draw(st.sampled_from([0, 0, 0, 1])), draw(st.sampled_from([0, 0x8000])), payload, options=options
        )
    wire = bytearray(query.to_wire())
    if draw(st.booleans()):
        at = draw(st.integers(2, len(wire) - 1))
        wire[at] = draw(st.integers(0, 255))
    return bytes(wire)


def responder_of(view: FakeView) -> Responder:
    return Responder(view, nsid=b"replica-1", limits=Limits(responses_per_s=0))


def served(responder: Responder, data: bytes, source: bytes) -> tuple[bytes | None, bool]:
    """As the socket's loop does; and whether the hot path did it."""
    fast = responder.prepare(0.0)
    wire = fast(data, source)
    if wire:
        return wire, True
    return responder.complete(data, source, wire is not None), False


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(queries(), SOURCES), min_size=1, max_size=12), st.booleans(), st.booleans())
@example([(dns.message.make_query(f"chat.{APEX}", "A").to_wire(), b"\x0a\x00\x00\x01")], False, False)
def test_both_paths_give_the_same_bytes(asked: list[tuple[bytes, bytes]], static: bool, trouble: bool) -> None:
    """For any queries, each asked again and again so that it is remembered, in any order, whatever the plan."""
    view = FakeView(at=plan(down=("us-east-1",) if trouble else ()))
    view.static = static
    responder = responder_of(view)
    for data, source in asked * 3:
        reference = Answerer(view, nsid=b"replica-1")
        expected = reference.answer(data, source, "udp")
        # A process of its own would have the same cookie secret: it comes from the key ring.
        wire, _ = served(responder, data, source)
        assert wire == (expected.wire if expected is not None else None)


def test_a_common_query_takes_the_hot_path_from_its_second_time() -> None:
    """With and without EDNS, client subnet and cookie; and for another name and another type at once."""
    responder = responder_of(FakeView())
    source = b"\xcb\x00\x71\x05"
    plain = dns.message.make_query(f"chat.{APEX}", "A").to_wire()
    option = dns.edns.ECSOption("203.0.113.0", 24)
    subnet = dns.message.make_query(f"Chat.{APEX}", "A", use_edns=0, options=[option]).to_wire()
    cookie = dns.message.make_query(
        f"chat.{APEX}", "A", use_edns=0, options=[option, dns.edns.GenericOption(10, b"12345678")]
    ).to_wire()
    for query in (plain, subnet, cookie):
        assert served(responder, query, source)[1] is False
        assert served(responder, query, source)[1] is True
    other = dns.message.make_query(f"us.{APEX}", "A", use_edns=0, options=[option]).to_wire()
    assert served(responder, other, source)[1] is False
    assert served(responder, other, source)[1] is True


def test_slash_0_is_remembered_for_its_sender_alone() -> None:
    """It stands for the sender's own network: the same record from elsewhere is another question."""
    view = FakeView()
    responder = responder_of(view)
    query = dns.message.make_query(
        f"chat.{APEX}", "A", use_edns=0, options=[dns.edns.ECSOption("0.0.0.0", 0)]
    ).to_wire()
    for source, address in ((b"\xc6\x33\x64\x05", "198.51.100.30"), (b"\xcb\x00\x71\x05", "192.0.2.")) * 3:
        wire, _ = served(responder, query, source)
        assert wire is not None
        assert dns.message.from_wire(wire).answer[0][0].to_text().startswith(address)


def test_a_cookie_is_renewed_on_the_hot_path() -> None:
    """Each step of the clock makes new ones; a remembered answer does not go on with the old."""
    view = FakeView()
    responder = responder_of(view)
    query = dns.message.make_query(
        f"chat.{APEX}", "A", use_edns=0, options=[dns.edns.GenericOption(10, b"12345678")]
    ).to_wire()
    made = []
    for _ in range(3):
        for _ in range(3):
            wire, hot = served(responder, query, b"\xcb\x00\x71\x05")
        assert hot
        assert wire is not None
        made.append(wire[-24:])
        view.clock_ms += 60_000
    assert len(set(made)) == 3


def test_a_new_plan_is_served_from_the_next_batch_on() -> None:
    """The hot path never answers from a plan that was replaced, and the answers of both are counted."""
    view = FakeView()
    responder = responder_of(view)
    query = dns.message.make_query(f"us.{APEX}", "A").to_wire()
    for _ in range(3):
        wire, _ = served(responder, query, b"\x0a\x00\x00\x01")
        assert wire is not None
        assert dns.message.from_wire(wire).answer
    view.swap(plan(down=("us-east-1",), epoch=1842))
    for _ in range(3):
        wire, _ = served(responder, query, b"\x0a\x00\x00\x01")
        assert wire is not None
        assert dns.message.from_wire(wire).rcode() == 2
    counts = {(kind.rcode, transport): n for (kind, transport), n in responder.answers().items()}
    assert counts == {("NOERROR", "udp"): 3, ("SERVFAIL", "udp"): 3}
    assert view.demand == {"us-east-1": 3}
