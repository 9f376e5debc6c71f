"""`GET /events`: every change of state, as a list."""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from litestar.datastructures import State

from director.http.guards import needs
from director.http.reading.fields import text, timestamp, timestamp_ms, whole
from director.http.replies import AnyRequest, json_reply, read_query, time_text
from director.http.state import shared
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
async def list_events(request: AnyRequest, state: State) -> Response[bytes]:
    """Oldest first: the newest that fit the filters, or with `since_id` the first after it."""
    query = read_query(request, FILTERS, numeric=("since_id", "limit"))
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
    }


def _ms(moment: str | None) -> int | None:
    return None if moment is None else timestamp_ms(moment)
