"""What the dashboard's pages of one server share."""

from __future__ import annotations

import asyncio

from litestar.datastructures import State

from director.core.table import RoutingTable
from director.http.dashboard.flow import FlowReader, Flows
from director.http.dashboard.history import History
from director.http.dashboard.live import Figures, Live
from director.http.dashboard.trend import Trends
from director.http.state import HttpState


class DashboardState:
    """Made once per server by `create_app`, and found by pages at `state.dashboard`."""

    def __init__(self, http: HttpState) -> None:
        self.live = Live(http)
        self.history = History()
        self.trends = Trends()
        self._flow_reader = FlowReader()
        self._flow_lock = asyncio.Lock()
        self._flows: tuple[RoutingTable, Figures, Flows] | None = None

    async def flows(self, table: RoutingTable, figures: Figures) -> Flows:
        """The flows of these figures under this table, worked out once for all who look."""
        async with self._flow_lock:
            known = self._flows
            if known is not None and known[0] is table and known[1] is figures:
                return known[2]
            flows = await asyncio.to_thread(self._flow_reader.read, table, figures.routes)
            self._flows = (table, figures, flows)
            return flows


def dashboard(state: State) -> DashboardState:
    found: DashboardState = state.dashboard
    return found
