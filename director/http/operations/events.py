"""`GET /events`: every change of state, as a list or as Server-Sent Events that can be resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Response, get
from litestar.datastructures import State
from litestar.response import Stream

from director.http.guards import needs
from director.http.problem import FieldProblem, ProblemRaised, malformed
from director.http.reading.fields import describe, text, timestamp, timestamp_ms, whole
from director.http.replies import AnyRequest, json_reply, read_query, time_text
from director.http.state import HttpState, shared
from director.store import events
from director.store.events import StoredEvent

LISTED_MAX = 1_000
LISTED_DEFAULT = 200

FILTERS = {
    "since": timestamp,
    "until": timestamp,
    "since_id": whole(),
    "region": text(256),
    "kind": text(128),
    "limit": whole(at_least=1),
}


@get("/events", guards=[needs("read")])
async def list_events(request: AnyRequest, state: State) -> Response[Any]:
    """Oldest first: the newest that fit the filters, or with `since_id` the first after it.

    A client that accepts `text/event-stream`, or sends `Last-Event-ID`, gets a stream from there on instead.
    """
    query = read_query(request, FILTERS, numeric=("since_id", "limit"))
    if "text/event-stream" in request.headers.get("accept", "") or "last-event-id" in request.headers:
        return _stream(request, shared(state), query)
    found = await events.list_events(
        shared(state).database(),
        since_id=query.get("since_id"),
        since_ms=_ms(query.get("since")),
        until_ms=_ms(query.get("until")),
        region=query.get("region"),
        kind=query.get("kind"),
        limit=min(query.get("limit", LISTED_DEFAULT), LISTED_MAX),
    )
    return json_reply([event_row(one) for one in found])


def _stream(request: AnyRequest, http: HttpState, query: dict[str, Any]) -> Response[Any]:
    """From `Last-Event-ID`, else from `since_id`, else from now on; region and kind narrow it."""
    told = request.headers.get("last-event-id", "")
    if told and not (told.isascii() and told.isdigit() and len(told) <= 18):
        raise ProblemRaised(malformed(FieldProblem("Last-Event-ID", "the id of an event", describe(told))))
    followed = http.feed.follow(
        http.database(),
        int(told) if told else query.get("since_id"),
        region=query.get("region"),
        kind=query.get("kind"),
    )
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return Stream(_frames(followed), media_type="text/event-stream", headers=headers)


async def _frames(followed: AsyncIterator[StoredEvent | None]) -> AsyncIterator[bytes]:
    yield b": follow\n\n"
    async for one in followed:
        if one is None:
            yield b": quiet\n\n"
        else:
            yield b"id: %d\nevent: change\ndata: %b\n\n" % (one.id, msgspec.json.encode(event_row(one)))


def event_row(stored: StoredEvent) -> dict[str, Any]:
    event = stored.event
    return {
        "id": stored.id,
        "at": time_text(event.at_ms),
        "kind": event.kind,
        "region": event.region,
        "model": event.model,
        "version": event.version,
        "before": event.before,
        "after": event.after,
        "why": event.why,
        "who": event.who,
        "request_id": event.request_id,
    }


def _ms(moment: str | None) -> int | None:
    return None if moment is None else timestamp_ms(moment)
