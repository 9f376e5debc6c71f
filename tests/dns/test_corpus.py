"""The fuzzer's corpus, held to the same rules again: every path that an hour of mutations reached."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.dns.hostile import check

CORPUS = [bytes.fromhex(line) for line in (Path(__file__).parent / "corpus.txt").read_text().split()]


def test_the_corpus_holds() -> None:
    """Twice, as what the first round made us remember must not change the second."""
    assert len(CORPUS) > 200
    for data in CORPUS * 2:
        check(data)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(CORPUS), st.data())
def test_neighbours_of_the_corpus_hold(data: bytes, draw: st.DataObject) -> None:
    """A byte changed, a piece cut out, a piece of another put in."""
    mutated = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, max(0, len(mutated) - 1)))
        match draw.draw(st.sampled_from(["set", "cut", "splice"])):
            case "set" if mutated:
                mutated[at] = draw.draw(st.integers(0, 255))
            case "cut":
                del mutated[at : at + draw.draw(st.integers(1, 8))]
            case _:
                mutated[at:at] = draw.draw(st.sampled_from(CORPUS))[1:][: draw.draw(st.integers(1, 40))]
    check(bytes(mutated))


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=700))
@example(b"")
def test_any_bytes_hold(data: bytes) -> None:
    """From nothing."""
    check(data)
