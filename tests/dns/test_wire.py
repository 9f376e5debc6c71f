"""Messages as bytes."""

from __future__ import annotations

import contextlib

import dns.message
import dns.name
import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.dns.wire import Malformed, Writer, name_from_text, name_to_text, parse_query

LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=20)
NAME = st.lists(LABEL, min_size=0, max_size=8).map(lambda labels: ".".join(labels) + ".")


@given(NAME)
def test_names_go_to_wire_and_back_as_dnspython_does(text: str) -> None:
    """The dotted form and the wire form say the same."""
    wire = name_from_text(text)
    assert wire == dns.name.from_text(text).to_wire()
    assert name_to_text(wire) == text


@pytest.mark.parametrize("text", ["a..b", "x" * 64 + ".org", ".".join(["y" * 60] * 5)])
def test_a_name_that_dns_cannot_carry_is_refused(text: str) -> None:
    """Empty labels, labels over 63 bytes and names over 255 bytes raise ValueError."""
    with pytest.raises(ValueError, match=r"bytes"):
        name_from_text(text)


@given(st.lists(NAME.filter(lambda n: n != "."), min_size=1, max_size=6), NAME)
def test_compressed_names_read_back_as_what_was_written(targets: list[str], question: str) -> None:
    """Pointers lead to the right names, whatever shares a suffix with whatever."""
    writer = Writer(name_from_text(question))
    for target in targets:
        writer.name_record(name_from_text(target), 2, 60, name_from_text("ns." + target))
    header = b"\0\0\x84\0\0\1" + len(targets).to_bytes(2, "big") + bytes(4)
    wire = header + name_from_text(question) + b"\0\2\0\1" + writer.bytes()
    message = dns.message.from_wire(wire, one_rr_per_rrset=True)
    assert [r.name.to_text() for r in message.answer] == targets
    assert [r[0].target.to_text() for r in message.answer] == ["ns." + t for t in targets]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Reading ends, with a query or with Malformed, and never otherwise."""
    with contextlib.suppress(Malformed):
        parse_query(bytes(4) + b"\0\1" + bytes(6) + data)


@given(st.data())
def test_every_cut_of_a_query_is_refused(data: st.DataObject) -> None:
    """A query that ends too early, anywhere, is malformed; so is one that goes on."""
    wire = dns.message.make_query("chat.eu.infer.example.com", "A", use_edns=0, payload=1232).to_wire()
    cut = data.draw(st.integers(12, len(wire) - 1))
    with pytest.raises(Malformed):
        parse_query(wire[:cut])
    with pytest.raises(Malformed, match="after the message"):
        parse_query(wire + b"\0")
