"""What the handlers of one HTTP server share."""

from __future__ import annotations

from litestar.datastructures import State

from director.http.decision.endpoint import DecisionState
from director.http.decision.log import DecisionLog
from director.http.exposition import MetricsPage
from director.http.metrics import Counters
from director.http.operations.feed import EventFeed
from director.http.problem import ProblemRaised, database_away
from director.replica.view import ReplicaView
from director.store.database import Database


class HttpState:
    """Made once per server by `create_app`, and found by handlers at `state.http`."""

    def __init__(self, view: ReplicaView, decision_log_ratio: float = 0.0) -> None:
        self.view = view
        self.counters = Counters()
        self.decision = DecisionState(view, self.counters)
        self.decision_log = DecisionLog(decision_log_ratio, self.decision) if decision_log_ratio > 0 else None
        self.metrics = MetricsPage(self.counters, view)
        self.feed = EventFeed()
        self.told: dict[tuple[str, str], tuple[str, ...]] = {}
        """(region, kind of event) → what was last said to be left out of its reports."""

    def database(self) -> Database:
        """Raises a 503 problem where this replica has none."""
        if self.view.database is None:
            raise ProblemRaised(database_away())
        return self.view.database


def shared(state: State) -> HttpState:
    found: HttpState = state.http
    return found
