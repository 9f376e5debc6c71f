"""`PUT /regions/{region}/report`."""

from __future__ import annotations

import asyncio

import structlog
from litestar import Response, put
from litestar.datastructures import State

from director.core.events import Event
from director.http.guards import needs, no_query
from director.http.ingest.read import LISTED_MAX, ReadReport, ReportRejected, read_report
from director.http.ingest.rules import BODY_BYTES_MAX
from director.http.problem import Problem
from director.http.replies import AnyRequest, check_region, json_reply, problem_reply
from director.http.state import HttpState, shared
from director.store import events, reports
from director.store.database import Database

INLINE_BYTES_MAX = 16 * 1024
"""A larger report is read in a thread: it would hold decisions up for milliseconds."""

log = structlog.get_logger()


@put("/regions/{region:str}/report", guards=[needs("report:{region}"), no_query], request_max_body_size=BODY_BYTES_MAX)
async def put_report(region: str, request: AnyRequest, state: State) -> Response[bytes]:
    """Take what a region says about every deployment it runs."""
    http = shared(state)
    if http.view.table is not None:
        check_region(region, http.view.table.policy)
    raw = await request.body()
    try:
        read = read_report(raw) if len(raw) <= INLINE_BYTES_MAX else await asyncio.to_thread(read_report, raw)
    except ReportRejected as rejected:
        http.counters.report(region, "refused")
        log.warning("report_refused", region=region, detail=rejected.detail[:300])
        return problem_reply(_unusable(rejected))
    database = http.database()
    receipt = await reports.put_report(database, region, read.report, raw)
    http.counters.report(region, receipt)
    if receipt == "older":
        detail = f"boot {read.report.boot_id!r} already sent a report after {read.report.sequence}"
        return problem_reply(Problem(409, "report_older", detail))
    if receipt == "accepted":
        http.counters.dropped(region, len(read.dropped))
        await _tell(http, database, region, read)
    return json_reply(_answer(receipt, read), 202 if receipt == "accepted" else 200)


def _unusable(rejected: ReportRejected) -> Problem:
    more = {"dropped": rejected.dropped[:LISTED_MAX]} if rejected.dropped else {}
    return Problem(422, "report_unusable", rejected.detail, errors=rejected.errors[:LISTED_MAX], more=more)


def _answer(receipt: str, read: ReadReport) -> dict[str, object]:
    warnings = list(read.warnings[:LISTED_MAX])
    warnings += [f"{path}: unknown field, passed over" for path in read.ignored_fields[:LISTED_MAX]]
    return {
        "status": receipt,
        "deployments": len(read.report.deployments),
        "warnings": warnings,
        "dropped": read.dropped[:LISTED_MAX],
        "dropped_count": len(read.dropped),
        "ignored_fields": read.ignored_fields[:LISTED_MAX],
    }


async def _tell(http: HttpState, database: Database, region: str, read: ReadReport) -> None:
    """Write an event when what had to be left out of a region's reports changes; not for each report."""
    now_ms = http.view.now_ms()
    left_out = {
        "report_deployments_dropped": tuple(
            sorted({f"{one.model} {one.version}: {one.errors[0]}" for one in read.dropped[:LISTED_MAX]})
        ),
        "report_fields_unknown": read.ignored_fields[:LISTED_MAX],
    }
    changed = [
        Event(kind=kind, at_ms=now_ms, why="; ".join(found)[:2_000], region=region, who=f"report:{region}")
        for kind, found in left_out.items()
        if http.told.get((region, kind), ()) != found and found
    ]
    for kind, found in left_out.items():
        http.told[region, kind] = found
    if changed:
        await events.append(database, *changed)
