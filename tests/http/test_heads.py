"""Heads that were seen before mean what the parser made of them, and nothing else is taken for one."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.http import protocol
from director.http.heads import Framed, HeadMemo, rest_of
from director.http.serve import running_http
from tests.http.fakes import FakeView
from tests.http.test_protocol import BODY, HEAD, Connection, get, post

HEADERS = [(b"host", b"x"), (b"authorization", b"Bearer decide"), (b"content-length", b"%d" % len(BODY))]


def learned() -> HeadMemo:
    memo = HeadMemo()
    rest = rest_of(post(), HEADERS, len(BODY))
    assert rest is not None
    memo.learn(rest, HEADERS, len(BODY))
    return memo


def test_a_known_head_frames_its_request() -> None:
    """Method, target, headers and body are those of the request that was learned."""
    assert learned().frame(post()) == Framed(b"POST", b"/select-region", HEADERS, BODY)
    other = BODY.replace(b'"s"', b'"t"')
    framed = learned().frame(post(other))
    assert framed is not None
    assert framed.body == other


@given(st.integers(0, len(post()) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_only_exact_bytes_are_taken(position: int, inserted: bytes, removed: int) -> None:
    """A change anywhere but within the body's bytes leaves the request to the parser."""
    whole = post()
    changed = whole[:position] + inserted + whole[position + removed :]
    framed = learned().frame(changed)
    if framed is None:
        return
    head_end = len(whole) - len(BODY)
    assert len(changed) == len(whole)
    assert changed[:head_end] == whole[:head_end]
    assert framed.body == changed[head_end:]


@pytest.mark.parametrize("cut", range(len(post())))
def test_a_part_is_never_a_whole(cut: int) -> None:
    """Whatever has arrived so far, an unfinished request waits for its end."""
    assert learned().frame(post()[:cut]) is None


def test_a_head_cut_where_its_length_would_fit() -> None:
    """A body as long as the head that is missing its end must not be read out of the head."""
    for length in range(60, 200):
        head = b"POST /select-region HTTP/1.1\r\n" + HEAD + b"Content-Length: %d\r\n\r\n" % length
        headers = [*HEADERS[:2], (b"content-length", b"%d" % length)]
        memo = HeadMemo()
        rest = rest_of(head + b"x" * length, headers, length)
        assert rest is not None
        memo.learn(rest, headers, length)
        for cut in range(len(head)):
            assert memo.frame(head[:cut]) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [(b"transfer-encoding", b"chunked"), (b"expect", b"100-continue"), (b"upgrade", b"h2c"), (b"connection", b"close")],
)
def test_unusual_heads_are_not_remembered(name: bytes, value: bytes) -> None:
    """What needs the parser's judgement each time goes to the parser each time."""
    data = post().replace(b"Host: x\r\n", b"Host: x\r\n%b: %b\r\n" % (name, value))
    assert rest_of(data, [*HEADERS, (name, value)], len(BODY)) is None
    kept = post().replace(b"Host: x\r\n", b"Host: x\r\nConnection: Keep-Alive\r\n")
    assert rest_of(kept, [*HEADERS, (b"connection", b"Keep-Alive")], len(BODY)) is not None


@pytest.mark.parametrize(
    "line",
    [
        b"POST /select-region HTTP/1.0",
        b"POST  /select-region HTTP/1.1",
        b"POST /select-regions HTTP/1.1",
        b"POST /plan HTTP/1.1",
        b"HEAD /select-region HTTP/1.1",
        b"POST /select-region#x HTTP/1.1",
        b"POST http://x/select-region HTTP/1.1",
        b"GET /select-region?a b HTTP/1.1",
        b"GET /select-region?\x00 HTTP/1.1",
        b"GET /select-region?x\nHost: y HTTP/1.1",
    ],
)
def test_an_unusual_first_line_goes_to_the_parser(line: bytes) -> None:
    """Only a plain GET or POST of this path is framed here."""
    assert learned().frame(post().replace(b"POST /select-region HTTP/1.1", line)) is None


async def test_remembered_and_parsed_requests_answer_alike(view: FakeView, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same requests give the same answers with the memory on and off, errors and other paths between them too."""
    query = b"/select-region?tenant=acme&model=llama&session="
    exchange = [
        post(),
        post(),
        post(),
        get(b"/health/live"),
        post(BODY.replace(b"acme", b"acmx")),
        post(),
        post(b"{}" + b" " * 45),
    ]
    exchange += [get(query + b"%d" % i, b"decide") for i in range(4)]
    exchange += [
        get(query + b"1&typo=1", b"decide"),
        get(b"/plan"),
        get(query + b"2", b"decide"),
        get(query, b"nobody"),
    ]
    exchange += [post(path=b"/select-region/v1/x"), post(path=b"/select-region?mode=auth_request"), post()]
    framed: list[object] = []
    frame = HeadMemo.frame

    def counting(memo: HeadMemo, data: bytes) -> object:
        found = frame(memo, data)
        framed.append(found)
        return found

    async def run() -> list[tuple[int, dict[str, str], bytes]]:
        async with running_http(view, "127.0.0.1", 0) as port:
            one = Connection(*await asyncio.open_connection("127.0.0.1", port))
            replies = []
            for request in exchange:
                await one.send(request)
                status, headers, body = await one.response()
                headers.pop("date")
                headers.pop("x-request-id", None)  # made for each request
                replies.append((status, headers, body[60:]))  # after the decision's own id
            one.writer.close()
            return replies

    monkeypatch.setattr(HeadMemo, "frame", counting)
    remembered = await run()
    assert sum(one is not None for one in framed) >= 8
    monkeypatch.setattr(HeadMemo, "frame", lambda memo, data: None)
    assert await run() == remembered


async def test_a_revoked_token_is_refused_at_once(view: FakeView) -> None:
    """A remembered head says nothing about who may ask."""
    async with running_http(view, "127.0.0.1", 0) as port:
        one = Connection(*await asyncio.open_connection("127.0.0.1", port))
        for _ in range(4):
            await one.send(post())
            assert (await one.response())[0] == 200
        del view.tokens.grants["decide"]
        await one.send(post())
        assert (await one.response())[0] == 401
        one.writer.close()


async def test_the_memory_is_bounded(view: FakeView, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads that differ each time are not remembered; those that repeat push nothing beyond the bound."""
    monkeypatch.setattr("director.http.heads.HEADS_MAX", 3)
    made: list[type[protocol.DecisionProtocol]] = []
    bind = protocol.protocol_for
    monkeypatch.setattr("director.http.serve.protocol_for", lambda *given: made.append(bind(*given)) or made[0])
    async with running_http(view, "127.0.0.1", 0) as port:
        one = Connection(*await asyncio.open_connection("127.0.0.1", port))
        for i in range(20):
            unique = post().replace(b"Host: x", b"Host: x%d" % i)
            for _ in range(1 if i < 10 else 3):
                await one.send(unique)
                assert (await one.response())[0] == 200
            known = len(made[0].heads._known)
            assert known == 0 if i < 10 else 1 <= known <= 3
        one.writer.close()


@pytest.mark.parametrize("seed", range(6))
async def test_any_cut_of_a_stream_answers_alike(view: FakeView, seed: int) -> None:
    """However a stream of requests is cut into reads, remembered heads or not, every request gets its own answer."""
    choose = random.Random(seed)
    requests, expected = [], []
    for i in range(60):
        kind = choose.choice(("post", "post", "post", "bad", "live", "get"))
        tenant, status = {"bad": (b"nobody", 403)}.get(kind, (b"acme", 200))
        body = b'{"tenant":"%b","model":"llama","session":"%04d"}' % (tenant, i)
        query = b"/select-region?tenant=acme&model=llama&session=%04d" % i
        requests.append({"live": get(b"/health/live"), "get": get(query, b"decide")}.get(kind, post(body)))
        expected.append((status, kind == "live"))
    stream, reads = b"".join(requests), []
    cuts = sorted({0, len(stream), *(choose.randrange(len(stream)) for _ in range(25))})
    if choose.random() < 0.5:
        ends = [sum(map(len, requests[:i])) for i in range(len(requests) + 1)]
        cuts = sorted({*ends, *choose.sample(cuts, 8)})
    for begin, end in itertools.pairwise(cuts):
        reads.append(stream[begin:end])
    async with running_http(view, "127.0.0.1", 0) as port:
        one = Connection(*await asyncio.open_connection("127.0.0.1", port))

        async def send() -> None:
            for data in reads:
                await one.send(data)
                await asyncio.sleep(0)

        sending = asyncio.ensure_future(send())
        for status, live in expected:
            told = await one.response()
            assert (told[0], b'"live"' in told[2]) == (status, live)
        await sending
        one.writer.close()
    assert sum(1 for one in view.counted) == sum(1 for status, live in expected if status == 200 and not live)
