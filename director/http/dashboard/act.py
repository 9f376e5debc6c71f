"""`/dashboard/act`: drain, down, cap and their ends, each with what would move before it is confirmed.

The preview runs the planner's own step (`policies.foresee`); the act itself is the very row and event that the API and
the command line write.
"""

from __future__ import annotations

from typing import Any, get_args
from urllib.parse import urlencode

from litestar import Response, get, post
from litestar.datastructures import State
from msgspec import Struct

from director.core.observations import OperatorSetting
from director.core.plan import RegionPlan
from director.http.dashboard.rendering import page
from director.http.dashboard.session import SentElsewhere, current, read_form, signed_in
from director.http.decision.question import parse_query
from director.http.operations.operators import DEADLINE_S_MAX, REASON_CHARS_MAX
from director.http.operations.plans import table_in_use
from director.http.policies.foresee import ENDS, SETS, Act, moves_of_act
from director.http.policies.moves import Moves
from director.http.problem import FieldProblem, ProblemRaised, malformed
from director.http.reading.fields import FieldRefused, Notes, describe, number, one_of, text
from director.http.replies import AnyRequest, check_region
from director.http.state import HttpState, shared
from director.store import events, operators
from director.store.database import DatabaseUnavailable
from director.store.events import StoredEvent

BODY_BYTES_MAX = 16_384
ACTS: tuple[Act, ...] = get_args(Act)
WORDS: dict[Act, tuple[str, str]] = {
    "drain": ("Drain", "takes no new sessions; those that hold a token may come back until the deadline"),
    "undrain": ("End the drain", "takes new sessions again, at the pace of recovery_per_s"),
    "down": ("Take down", "takes nothing at once, sessions included"),
    "up": ("Bring up", "takes traffic again, at the pace of recovery_per_s"),
    "cap": ("Cap its share", "takes at most this share of any route"),
    "uncap": ("End the cap", "takes its whole share again"),
}
NEWS_KINDS = frozenset({"drain", "undrain", "down", "up", "cap", "uncap"})
NEWS_MAX = 12


class Wish(Struct, frozen=True):
    """An act as a form tells it, checked."""

    region: str
    act: Act
    reason: str
    deadline_s: float | None = None
    share: float | None = None

    @property
    def words(self) -> tuple[str, str]:
        return WORDS[self.act]


@get("/dashboard/act", guards=[signed_in("read")])
async def act(request: AnyRequest, state: State) -> Response[bytes]:
    """What operators have set; a form; and with a whole wish in the address, what it would move."""
    http = shared(state)
    policy = table_in_use(http).policy
    try:
        told = {name: value.strip() for name, value in parse_query(request.scope["query_string"]).items()}
    except FieldRefused as refused:
        raise ProblemRaised(malformed(*refused.problems)) from None
    problems: tuple[FieldProblem, ...] = ()
    wish: Wish | None = None
    moves: Moves | None = None
    if told.get("act"):
        try:
            wish = read_wish(told, tuple(policy.regions))
            moves = await moves_of_act(http, wish.region, wish.act, wish.share)
        except FieldRefused as refused:
            problems = refused.problems
    return page(
        request, "act.html", current(request), tab="act", title="Act", told=told, problems=problems, wish=wish,
        moves=moves, acts=WORDS, regions=sorted(policy.regions), **await _standing(http),
    )  # fmt: skip


@post("/dashboard/act", guards=[signed_in("operate")], status_code=303, request_max_body_size=BODY_BYTES_MAX)
async def confirm(request: AnyRequest, state: State) -> Response[bytes]:
    """Do what was previewed, and show who did it."""
    http = shared(state)
    told = await read_form(request)
    policy = table_in_use(http).policy
    check_region(told.get("region", ""), policy)
    try:
        wish = read_wish(told, tuple(policy.regions))
    except FieldRefused as refused:
        raise ProblemRaised(malformed(*refused.problems)) from None
    who = current(request).grant.name
    database = http.database()
    if wish.act in SETS:
        await operators.put(
            database, wish.region, SETS[wish.act], who=who, reason=wish.reason,
            deadline_s=wish.deadline_s, share=wish.share,
        )  # fmt: skip
        done = True
    else:
        before = await operators.clear(database, wish.region, ENDS[wish.act], who=who, reason=wish.reason)
        done = before is not None
    raise SentElsewhere("/dashboard/act?" + urlencode({"region": wish.region, "done": wish.act if done else "nothing"}))


def read_wish(told: dict[str, str], regions: tuple[str, ...]) -> Wish:
    """Raises FieldRefused with every field that cannot be used."""
    problems: list[FieldProblem] = []

    def read(name: str, check: Any, value: Any) -> Any:
        try:
            return check(value, name, Notes())
        except FieldRefused as refused:
            problems.extend(refused.problems)
            return None

    region = read("region", one_of(*regions), told.get("region", ""))
    wanted: Act | None = read("act", one_of(*ACTS), told.get("act", ""))
    reason = read("reason", text(REASON_CHARS_MAX), told.get("reason", "").strip())
    minutes = share = None
    if wanted == "drain" and told.get("deadline_min"):
        minutes = read("deadline_min", number(above=0, at_most=DEADLINE_S_MAX / 60), _number(told["deadline_min"]))
    if wanted == "cap":
        percent = read("share_percent", number(at_most=100), _number(told.get("share_percent", "")))
        share = None if percent is None else percent / 100
    if problems or wanted is None:
        raise FieldRefused(*problems)
    return Wish(region, wanted, reason, None if minutes is None else minutes * 60, share)


def _number(value: str) -> Any:
    try:
        return float(value)
    except ValueError:
        return describe(value)


async def _standing(http: HttpState) -> dict[str, Any]:
    """What is set and what was lately done. While the database is away: what the plan knows."""
    table = table_in_use(http)
    observed = {one.region: one for one in table.plan.regions}
    settings: tuple[OperatorSetting, ...] = ()
    news: list[StoredEvent] = []
    known = False
    if http.view.database is not None and not http.view.degraded:
        try:
            settings = await operators.list_settings(http.view.database)
            for kind in sorted(NEWS_KINDS):
                news += await events.list_events(http.view.database, kind=kind, limit=NEWS_MAX)
            known = True
        except DatabaseUnavailable:
            settings, news = (), []
    news.sort(key=lambda one: -one.id)
    rows = [(one, observed.get(one.region) or RegionPlan(one.region, "unseen")) for one in settings]
    return {"standing": rows, "news": news[:NEWS_MAX], "known": known}
