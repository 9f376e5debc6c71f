"""What strangers may have: of answers, and of our memory."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.dns.book import PICKS_MAX, STRANGERS_MAX
from director.dns.cookies import COOKIES_MAX
from director.dns.fast import REPLIES_MAX
from director.dns.limits import Limits, RateLimiter
from director.dns.memo import Memo
from director.dns.networks import NETWORKS_MAX
from director.dns.server import Responder
from tests.dns.fakes import APEX, FakeView, plan
from tests.dns.test_fast import served


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(min_size=4, max_size=4)), max_size=300), st.integers(1, 20))
def test_no_network_gets_more_than_its_limit_in_a_second(asked: list[tuple[int, bytes]], limit: int) -> None:
    """Whatever the order: at most `limit` whole answers a second and /24, and slips no more often than set."""
    limiter = RateLimiter(Limits(responses_per_s=limit, slip=3))
    given_: dict[tuple[int, bytes], list[str]] = {}
    for second, source in sorted(asked, key=lambda pair: pair[0]):
        limiter.tick(second)
        verdict = "answer"
        if limiter.over(source):
            verdict = "slip" if limiter.slips(source) else "drop"
        given_.setdefault((second, source[:3]), []).append(verdict)
    for verdicts in given_.values():
        assert verdicts.count("answer") == min(limit, len(verdicts))
        assert verdicts.count("slip") == max(0, len(verdicts) - limit) // 3


def test_ipv6_is_limited_by_56_bits() -> None:
    """One customer's prefix is one client; the next is another."""
    limiter = RateLimiter(Limits(responses_per_s=1))
    prefix = bytes.fromhex("20010db8000100")
    assert limiter.over(prefix + bytes(9)) is False
    assert limiter.over(prefix + b"\xff" * 9) is True
    assert limiter.over(prefix[:-1] + b"\x01" + bytes(9)) is False


@given(st.integers(1, 100), st.integers(1, 16), st.lists(st.integers(0, 1 << 16), max_size=300))
def test_workers_together_keep_to_the_limit(limit: int, workers: int, ports: list[int]) -> None:
    """However the kernel spreads a network's queries: no more than is written, but for what rounding up adds; spread
    evenly, no less."""

    def whole(asked: list[int]) -> int:
        limiters = [RateLimiter(Limits(responses_per_s=limit).for_each_of(workers)) for _ in range(workers)]
        return sum(not limiters[port % workers].over(bytes(4)) for port in asked)

    assert whole(ports) <= limit + workers - 1
    assert whole(list(range(limit * workers))) >= limit


def test_a_lifted_limit_stays_lifted_and_the_rest_is_each_workers_own() -> None:
    """0 divided is 0; connections and memory are limited in each process."""
    limits = Limits(responses_per_s=0)
    assert limits.for_each_of(4) == limits
    assert Limits(responses_per_s=1000, slip=3).for_each_of(4) == Limits(responses_per_s=250, slip=3)


def test_exempt_networks_have_no_limit() -> None:
    """A load balancer in front is not a victim."""
    limiter = RateLimiter(Limits(responses_per_s=1, exempt=("10.0.0.0/8", "2001:db8::/32")))
    inside = (b"\x0a\0\0\1", bytes(10) + b"\xff\xff\x0a\0\0\2", bytes.fromhex("20010db8") + bytes(12))
    for source in (*inside, *inside):
        assert limiter.over(source) is False
    assert [limiter.over(b"\x0b\0\0\1"), limiter.over(b"\x0b\0\0\1")] == [False, True]


@pytest.mark.parametrize(
    "behind",
    [b"", b"\0\0\x29\4\xd0\0\1\0\0\0\0", b"\0\0\x29\4\xd0\0\0\0\0\0\5\0\x0a\0\1x", b"\0\0\x29\4\xd0\0\0\0\0\xff\xff"],
    ids=["no OPT", "BADVERS", "bad cookie", "cut"],
)
@pytest.mark.parametrize("opcode", [0, 5])
def test_errors_are_limited_like_answers(behind: bytes, opcode: int) -> None:
    """A query need not be well formed to be forged; what only claims to be a cookie lifts nothing."""
    responder = Responder(FakeView(), limits=Limits(responses_per_s=3, slip=0))
    query = struct.pack("!6H", 7, opcode << 11, 1, 0, 0, 1 if behind else 0) + b"\0\0\1\0\1" + behind
    got = [served(responder, query, b"\xcb\0\x71\5")[0] for _ in range(20)]
    assert sum(wire is not None for wire in got) == 3
    assert responder.counters.dropped == {"rate_limited": 17}


def test_networks_beyond_the_table_are_answered_uncounted() -> None:
    """A flood of forged sources must not shut out everyone new."""
    limiter = RateLimiter(Limits(responses_per_s=1, networks_max=10))
    for i in range(50):
        assert limiter.over(bytes((i, 0, 0, 1))) is False
    assert limiter.over(bytes((3, 0, 0, 1))) is True
    assert limiter.over(bytes((40, 0, 0, 1))) is False


@given(st.lists(st.integers(0, 60)), st.integers(1, 10))
def test_a_memo_is_bounded_and_never_wrong(keys: list[int], entries_max: int) -> None:
    """It forgets, but what it remembers is what was put; what was used just now is not forgotten first."""
    memo: Memo[int, str] = Memo(entries_max)
    for key in keys:
        found = memo.get(key)
        assert found in (None, str(key))
        memo.put(key, str(key))
        assert memo.get(key) == str(key)
        assert len(memo.young) <= entries_max
        assert len(memo.old) <= entries_max


@pytest.fixture
def hosted() -> tuple[FakeView, Responder]:
    view = FakeView()
    return view, Responder(view, limits=Limits(responses_per_s=0))


def hostile_query(rng: random.Random) -> bytes:
    """A random name or a real one, a random type, a random subnet, a random cookie."""
    label = rng.choice([b"chat", b"x%d" % rng.randrange(10**9)])
    name = bytes((len(label),)) + label + b"".join(bytes((len(p),)) + p.encode() for p in APEX.split(".")) + b"\0"
    options = struct.pack("!HH", 8, 7) + b"\0\1\x18\0" + rng.randbytes(3)
    if rng.random() < 0.5:
        options += struct.pack("!HH", 10, 8) + rng.randbytes(8)
    opt = b"\0" + struct.pack("!HHIH", 41, rng.choice([512, 1232, rng.randrange(65536)]), 0, len(options)) + options
    qtype = rng.choice([1, 28, rng.randrange(65536)])
    return struct.pack("!6H", rng.randrange(65536), 0, 1, 0, 0, 1) + name + struct.pack("!HH", qtype, 1) + opt


def test_what_strangers_make_us_remember_is_bounded(
    hosted: tuple[FakeView, Responder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every memory has its bound, over plans too, and reaches it (bounds lowered here, so that it is quick)."""
    view, _ = hosted
    for name in (
        "director.dns.fast.REPLIES_MAX",
        "director.dns.networks.NETWORKS_MAX",
        "director.dns.cookies.COOKIES_MAX",
    ):
        monkeypatch.setattr(name, 50)
    monkeypatch.setattr("director.dns.book.STRANGERS_MAX", 20)
    monkeypatch.setattr("director.dns.book.PICKS_MAX", 200)
    responder = Responder(view, limits=Limits(responses_per_s=0))
    rng = random.Random(5)
    for round_ in range(4):
        view.swap(plan(epoch=3000 + round_))
        for _ in range(1500):
            served(responder, hostile_query(rng), rng.randbytes(4))
        book = responder.answerer.book
        assert book is not None
        askers, jar = responder._askers, responder.answerer.jar
        memos = (askers.by_opt, askers.by_source, book.networks._known, book.networks.by_source, jar._known, jar._made)
        assert [len(m.young) <= 50 and len(m.old) <= 50 for m in memos] == [True] * 6
        assert len(book.strangers.young) <= 20
        assert len(book.strangers.old) <= 20
        entries = (*book.known.values(), *book.strangers.young.values(), *book.strangers.old.values())
        assert sum(len(entry.picks) for entry in entries) <= 200
        assert len(book.known) <= 3
        assert len(book.tallies) < 40
        assert len(responder.answers()) < 40


def test_the_bounds_together_are_modest() -> None:
    """Some hundred bytes for each: less than 100 MiB of strangers' data at the very worst."""
    entry_bytes = 2 * (2 * REPLIES_MAX * 550 + 2 * NETWORKS_MAX * 350 + 2 * COOKIES_MAX * 250) + PICKS_MAX * 110
    assert entry_bytes + 2 * STRANGERS_MAX * 3000 < 100 << 20
