"""`GET /dashboard/timeline`: shares and utilisation over the last hours, events on them, and the plans of moments.

The curves are what regions reported. A chosen moment (`at`) shows the plan that was in force then; a second one
(`against`) stands beside it, with what differs marked. All of it is in the address.
"""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from litestar.datastructures import State
from msgspec import Struct

from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.policy import Policy
from director.http.dashboard import words
from director.http.dashboard.history import Series
from director.http.dashboard.regions import SHED_MIN, state_of
from director.http.dashboard.rendering import page, query
from director.http.dashboard.session import current, signed_in
from director.http.dashboard.state import dashboard
from director.http.operations.explain import table_at
from director.http.operations.plans import table_in_use
from director.http.problem import FieldProblem, ProblemRaised, malformed
from director.http.reading.fields import text, timestamp, timestamp_ms
from director.http.replies import AnyRequest, json_reply, read_query
from director.http.state import HttpState, shared
from director.store import events
from director.store.events import StoredEvent

SHOWN_MAX = 8
"""Lines that one can tell apart."""
EVENTS_MAX = 300
LISTED_MAX = 60
SPANS_H = (0.25, 1.0, 3.0, 6.0, 12.0, 24.0)
SPAN_H = 3.0
HOURS_MAX = 24.0
"""Reports are kept for a day."""
FIELDS = {"hours": text(8), "regions": text(2_048), "at": timestamp, "against": timestamp, "until": timestamp}


class Choice(Struct, frozen=True):
    hours: float
    regions: tuple[str, ...]
    at: str | None = None
    against: str | None = None
    until: str | None = None

    def address(self, **changes: Any) -> str:
        told: dict[str, Any] = {
            "hours": "" if self.hours == SPAN_H else f"{self.hours:g}",
            "regions": self.regions,
            "at": self.at,
            "against": self.against,
            "until": self.until,
        }
        return "/dashboard/timeline?" + query(**(told | changes))

    @property
    def data_address(self) -> str:
        return "/dashboard/timeline/data?" + query(hours=f"{self.hours:g}", regions=self.regions, until=self.until)


class PlanRow(Struct, frozen=True):
    """A region in the plan of a moment."""

    region: str
    state: str
    capacity: float
    demand_ratio: float | None
    sheds: float
    breakers: str
    operator: str


class Past(Struct, frozen=True):
    """The plan that was in force at a moment."""

    at: str
    at_ms: int
    plan: Plan
    rows: dict[str, PlanRow]


@get("/dashboard/timeline", guards=[signed_in("read")])
async def timeline(request: AnyRequest, state: State) -> Response[bytes]:
    """The page; its curves are asked for apart, so that it stands at once."""
    http = shared(state)
    choice = _choice(request, http)
    end_ms = _end_ms(http, choice)
    listed = await _events(http, end_ms, choice.hours, LISTED_MAX, choice.regions)
    moments: list[Past] = []
    missing: list[str] = []
    for at in (choice.at, choice.against):
        if at is not None:
            try:
                moments.append(await _past(http, at))
            except ProblemRaised as raised:
                missing.append(f"{at}: {raised.problem.detail}")
    policy = table_in_use(http).policy
    return page(
        request,
        "timeline.html",
        current(request),
        tab="timeline",
        title="Timeline",
        choice=choice,
        spans=SPANS_H,
        all_regions=list(policy.regions),
        shown=choice.regions or tuple(policy.regions)[:SHOWN_MAX],
        shown_max=SHOWN_MAX,
        events=listed[::-1],
        moments=moments,
        missing=missing,
        regions=list(dict.fromkeys(name for one in moments for name in one.rows)),
    )


@get("/dashboard/timeline/data", guards=[signed_in("read")])
async def timeline_data(request: AnyRequest, state: State) -> Response[bytes]:
    """The curves and the events, for the charts."""
    http = shared(state)
    choice = _choice(request, http)
    policy = table_in_use(http).policy
    end_ms = _end_ms(http, choice)
    series = await dashboard(state).history.series(
        http.database(), tuple(policy.regions), end_ms, int(choice.hours * 3_600_000)
    )
    names = choice.regions or busiest(series)
    happened = await _events(http, end_ms, choice.hours, EVENTS_MAX, ())
    reply = json_reply(
        {
            "times_s": [at / 1000 for at in series.moments],
            "regions": names,
            "shares": [_rounded(series.shares(name)) for name in names],
            "utilisations": [_rounded(series.utilisations(name)) for name in names],
            "events": [{"at_s": one.event.at_ms / 1000, "text": sentence(one)} for one in happened],
        }
    )
    reply.headers["cache-control"] = "no-store"
    return reply


def busiest(series: Series) -> tuple[str, ...]:
    """The regions with the most traffic over the span, as many as can be told apart; in the policy's order."""
    sums = {name: sum(one.arrived or 0.0 for one in rows if one is not None) for name, rows in series.regions.items()}
    chosen = set(sorted(sums, key=lambda name: -sums[name])[:SHOWN_MAX])
    return tuple(name for name in sums if name in chosen)


def sentence(stored: StoredEvent) -> str:
    """An event in one line: what, where, from what to what, why."""
    one = stored.event
    where = " ".join(part for part in (one.region, one.model, one.version) if part)
    change = f" {one.before} → {one.after}" if one.before and one.after else ""
    return f"{where + ' ' if where else ''}{words.spaced(one.kind)}{change}: {one.why}"


def plan_rows(plan: Plan, policy: Policy) -> dict[str, PlanRow]:
    """One row for each region of the plan's policy."""
    observed = {one.region: one for one in plan.regions}
    served: dict[str, list[DeploymentPlan]] = {}
    for d in plan.deployments:
        served.setdefault(d.region, []).append(d)
    return {
        name: _row(observed.get(name) or RegionPlan(name, "unseen"), served.get(name, [])) for name in policy.regions
    }


def _row(seen: RegionPlan, deployments: list[DeploymentPlan]) -> PlanRow:
    capacity = sum(d.capacity_tokens_per_s for d in deployments)
    demand = sum(d.offered_tokens_per_s + d.pinned_tokens_per_s for d in deployments)
    home = sum(d.admit_home * d.capacity_tokens_per_s for d in deployments)
    sheds = 1.0 - home / capacity if capacity > 0 else 0.0
    open_ = [f"{d.model} {d.version}: {words.spaced(d.breaker)}" for d in deployments if d.breaker != "closed"]
    operator = "" if seen.operator is None else f"{seen.operator.kind} by {seen.operator.who}"
    if seen.share_cap is not None:
        operator = f"{operator}, cap {words.percent(seen.share_cap)}".lstrip(", ")
    return PlanRow(
        region=seen.region,
        state=words.spaced(state_of(seen, deployments)),
        capacity=capacity,
        demand_ratio=demand / capacity if capacity > 0 else None,
        sheds=sheds if sheds >= SHED_MIN else 0.0,
        breakers=", ".join(open_[:3]) + (f" and {len(open_) - 3} more" if len(open_) > 3 else ""),
        operator=operator,
    )


async def _past(http: HttpState, at: str) -> Past:
    at_ms = timestamp_ms(at) or 0
    table = await table_at(http, table_in_use(http), at_ms)
    return Past(at, at_ms, table.plan, plan_rows(table.plan, table.policy))


def _choice(request: AnyRequest, http: HttpState) -> Choice:
    told = read_query(request, FIELDS)
    known = table_in_use(http).policy.regions
    names = tuple(dict.fromkeys(name for name in told.get("regions", "").split(",") if name in known))
    try:
        hours = float(told.get("hours", SPAN_H))
    except ValueError:
        hours = -1.0
    if not 0 < hours <= HOURS_MAX:
        problem = FieldProblem("hours", f"hours, above 0, at most {HOURS_MAX:g}", repr(told["hours"]))
        raise ProblemRaised(malformed(problem))
    return Choice(hours, names[:SHOWN_MAX], told.get("at"), told.get("against"), told.get("until"))


def _end_ms(http: HttpState, choice: Choice) -> int:
    return http.view.now_ms() if choice.until is None else timestamp_ms(choice.until) or 0


async def _events(
    http: HttpState, end_ms: int, hours: float, limit: int, regions: tuple[str, ...]
) -> list[StoredEvent]:
    """The newest in the span, oldest first; of these regions and of the fleet as a whole."""
    begin_ms = end_ms - int(hours * 3_600_000)
    database = http.database()
    found = await events.list_events(database, since_ms=begin_ms, until_ms=end_ms, limit=EVENTS_MAX)
    chosen = [one for one in found if not regions or one.event.region is None or one.event.region in regions]
    return chosen[-limit:]


def _rounded(values: list[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in values]
