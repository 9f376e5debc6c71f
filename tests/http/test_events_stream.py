"""`GET /events` as Server-Sent Events, from a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from director.core.events import Event
from director.http.operations import feed
from director.http.serve import running_http
from director.store import events
from director.store.database import Database
from tests.http.fakes import NOW_MS, FakeView, auth

pytestmark = pytest.mark.postgres
STREAM = {**auth("read"), "Accept": "text/event-stream"}


@pytest.fixture
def view(database: Database) -> FakeView:
    return FakeView(database=database)


def event(number: int, region: str = "eu-west-1") -> Event:
    return Event("test", NOW_MS + number, f"why {number}", region=region)


async def frames(reply: httpx.Response) -> AsyncIterator[dict[str, str]]:
    frame: dict[str, str] = {}
    async for line in reply.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            frame[name or "comment"] = value
        elif frame:
            yield frame
            frame = {}


async def whys(reply: httpx.Response, count: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    async with asyncio.timeout(30):
        async for frame in frames(reply):
            if "data" in frame:
                found.append((int(frame["id"]), msgspec.json.decode(frame["data"])["why"]))
            if len(found) == count:
                break
    return found


async def test_new_events_arrive_and_a_stream_resumes(client: httpx.AsyncClient, database: Database) -> None:
    """From now on without an id; with `Last-Event-ID`, everything after it, in order and once."""
    await events.append(database, event(0))
    async with client.stream("GET", "/events", headers=STREAM) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        following = asyncio.ensure_future(whys(reply, 2))
        async with asyncio.timeout(30):
            while not following.done():
                await events.append(database, event(1))
                await asyncio.sleep(0.2)
        first = await following
    assert {why for _, why in first} == {"why 1"}
    await events.append(database, event(2), event(3, "us-east-1"), event(4))
    resume = {**STREAM, "Last-Event-ID": str(first[0][0])}
    async with client.stream("GET", "/events", headers=resume) as reply:
        stored = [one for one in await events.list_events(database) if one.id > first[0][0]]
        assert await whys(reply, len(stored)) == [(one.id, one.event.why) for one in stored]
    async with client.stream("GET", "/events?region=us-east-1&since_id=0", headers=STREAM) as reply:
        assert [why for _, why in await whys(reply, 1)] == ["why 3"]


async def test_quiet_streams_say_so(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment keeps proxies from closing a stream on which nothing happens."""
    monkeypatch.setattr(feed, "QUIET_S_MAX", 0.05)
    async with client.stream("GET", "/events", headers=STREAM) as reply, asyncio.timeout(30):
        comments = [frame["comment"] async for frame in _first(frames(reply), 3)]
    assert comments == ["follow", "quiet", "quiet"]


async def _first(source: AsyncIterator[dict[str, str]], count: int) -> AsyncIterator[dict[str, str]]:
    async for one in source:
        yield one
        count -= 1
        if count == 0:
            return


async def test_a_bad_resume_point_is_refused(client: httpx.AsyncClient) -> None:
    """400 names the header."""
    reply = await client.get("/events", headers={**STREAM, "Last-Event-ID": "x"})
    assert (reply.status_code, reply.json()["errors"][0]["path"]) == (400, "Last-Event-ID")


async def test_streams_outlive_an_outage(client: httpx.AsyncClient, view: FakeView) -> None:
    """While the database is away a stream stays open and says that nothing came."""
    view.database = Database("postgresql://nobody@/none?host=/nowhere")
    async with client.stream("GET", "/events", headers=STREAM) as reply, asyncio.timeout(30):
        comments = [frame["comment"] async for frame in _first(frames(reply), 3)]
    assert comments == ["follow", "quiet", "quiet"]
    await view.database.close()


async def test_stopping_the_server_ends_streams(view: FakeView) -> None:
    """An open dashboard does not hold up a stop."""
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient() as client:
        async with running_http(view, "127.0.0.1", 0) as port:
            request = client.build_request("GET", f"http://127.0.0.1:{port}/events", headers=STREAM)
            reply = await client.send(request, stream=True)
            lines = reply.aiter_lines()
            assert await anext(lines) == ": follow"
            began = loop.time()
        assert loop.time() - began < 2.5
        await reply.aclose()


async def test_an_event_during_a_read_is_not_lost(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written between a read and the look at the newest id still reaches a filtered stream."""
    followed = feed.EventFeed()
    read = events.list_events
    late: list[Event] = [event(7)]

    async def read_then_write(*args: object, **filters: object) -> list[events.StoredEvent]:
        found = await read(*args, **filters)  # type: ignore[arg-type]
        if late:
            await events.append(database, late.pop())
            followed._newest = await events.newest_event_id(database)
        return found

    monkeypatch.setattr(events, "list_events", read_then_write)
    async with asyncio.timeout(30):
        async for one in followed.follow(database, 0, region="eu-west-1"):
            if one is not None:
                assert one.event.why == "why 7"
                break
    followed.close()
