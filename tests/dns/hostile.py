"""What must hold for any bytes that a stranger sends.

The first byte of an input chooses transport, source and what the plan is like; the rest is the message. The fuzzer and
the tests over its corpus share this.
"""

from __future__ import annotations

import struct

from director.dns.answer import Answerer
from director.dns.limits import Limits
from director.dns.server import Responder
from tests.dns.fakes import FakeView, plan

SOURCES = (b"\xcb\x00\x71\x05", bytes.fromhex("20010db8000100000000000000000001"))
UDP_BYTES_MAX = 1232


def worlds() -> list[tuple[FakeView, Responder]]:
    """A calm plan, one in trouble that is static as well, and none at all."""
    calm, trouble, nothing = FakeView(), FakeView(at=plan(down=("us-east-1",))), FakeView(table=False)
    trouble.static = True
    return [(v, Responder(v, nsid=b"r", limits=Limits(responses_per_s=0))) for v in (calm, trouble, nothing)]


WORLDS = worlds()


def check(data: bytes) -> None:
    """An answer or silence, within bounds, the same from both paths. Raises AssertionError, or whatever escaped."""
    if not data:
        return
    choice, message = data[0], data[1:]
    view, responder = WORLDS[choice % len(WORLDS)]
    source = SOURCES[choice >> 2 & 1]
    over_tcp = bool(choice & 0x80)
    # The answerer itself: the responder would turn an escaped exception into SERVFAIL.
    answer = responder.answerer.answer(message, source, "tcp" if over_tcp else "udp")
    if answer is None:
        assert len(message) < 12 or message[2] & 0x80
        return
    wire = answer.wire
    assert wire[:2] == message[:2]
    assert wire[2] & 0x80
    assert wire[2] & 0x78 == message[2] & 0x78
    assert len(wire) <= (0xFFFF if over_tcp else UDP_BYTES_MAX)
    questions, answers, authorities, additionals = struct.unpack_from("!4H", wire, 4)
    assert questions <= 1
    assert answers <= 16
    assert authorities <= 1
    assert additionals <= 8
    if over_tcp:
        return
    if wire[2] & 0x02:
        assert len(wire) <= max(512, len(message) + 128)
    fast = responder.prepare(0.0)
    for _ in range(2):
        got = fast(message, source) or responder.complete(message, source, False)
        assert got == wire, (got, wire)
    assert "internal_error" not in responder.counters.dropped
    if choice & 0x40:
        fresh = Answerer(view, nsid=b"r").answer(message, source, "udp")
        assert fresh is not None
        # Without a plan each process makes cookies of its own; with one they share the secret.
        assert view.table is None or fresh.wire == wire
