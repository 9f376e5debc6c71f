"""`POST /outcomes`: how requests ended, as an L7 saw it, in batches that count once."""

from __future__ import annotations

from typing import Any

from litestar import Response, post
from litestar.datastructures import State

from director.core.observations import Outcome
from director.http.guards import needs, no_query
from director.http.operations.plans import table_in_use
from director.http.reading.fields import listed, number, one_of, record, text, whole
from director.http.replies import AnyRequest, json_reply, read_body
from director.http.state import shared
from director.store import outcomes

BATCH_MAX = 10_000
BODY_BYTES_MAX = 2 * 1024 * 1024


def _outcome(**told: Any) -> Outcome:
    told.pop("ttft_ms", None)
    return Outcome(reporter="", outcome=told.pop("class"), **told)


FIELDS = {
    "region": text(256),
    "model": text(256),
    "version": text(128),
    "class": one_of("ok", "server", "timeout", "connect", "throttled", "client"),
    "count": whole(at_least=1),
    "ttft_ms": number(),
    "retry_after_s": number(),
}
_batch = {
    "reporter": text(128),
    "batch": text(128),
    "outcomes": listed(record(_outcome, FIELDS, ("region", "model", "version", "class", "count")), items_max=BATCH_MAX),
}


@post("/outcomes", guards=[needs("decide"), no_query], request_max_body_size=BODY_BYTES_MAX)
async def post_outcomes(request: AnyRequest, state: State) -> Response[bytes]:
    """202 for a batch that counts, 200 for one seen before. Regions and models unknown to the policy count nothing."""
    http = shared(state)
    policy = table_in_use(http).policy
    body = await read_body(request, _batch, required=("reporter", "batch", "outcomes"))
    told: tuple[Outcome, ...] = body["outcomes"]
    known = tuple(
        Outcome(body["reporter"], one.region, one.model, one.version, one.outcome, one.count, one.retry_after_s)
        for one in told
        if one.region in policy.regions and one.model in policy.models
    )
    ignored = [f"outcomes[{i}]" for i, one in enumerate(told) if not _known(one, policy.regions, policy.models)]
    counted = await outcomes.put_batch(http.database(), body["reporter"], body["batch"], known)
    if counted:
        for one in known:
            http.counters.outcome(one.outcome, one.count)
    answer = {"status": "accepted" if counted else "duplicate", "outcomes": len(known), "ignored": ignored[:100]}
    return json_reply(answer, 202 if counted else 200)


def _known(one: Outcome, regions: Any, models: Any) -> bool:
    return one.region in regions and one.model in models
