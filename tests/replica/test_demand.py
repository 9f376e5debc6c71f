from __future__ import annotations

import pytest

from director.core.decide import decide
from director.core.decision import Decision
from director.core.observations import DeploymentTokens
from director.replica import demand
from director.replica.demand import DemandCounter
from tests.replica.worlds import REQUEST, table


def decided(request: object = REQUEST) -> Decision:
    decision = decide(table(), request, 10_000)  # type: ignore[arg-type]
    assert isinstance(decision, Decision)
    return decision


def test_requests_of_one_route_become_one_row() -> None:
    """A second of traffic is summed by route, with where it went."""
    routes = table()
    route = routes.route(routes.route_key(REQUEST))
    counter = DemandCounter()
    for tokens in (100.0, 250.0):
        counter.decided(route, decided(), tokens)
    sample = counter.take("r1", 5_000, 1_000)
    assert sample is not None
    assert (sample.replica, sample.at_ms, sample.span_ms) == ("r1", 5_000, 1_000)
    (row,) = sample.routes
    assert row.route == route.key
    assert (row.requests, row.new_tokens, row.pinned) == (2, 350.0, ())
    assert row.decided == (DeploymentTokens("eu-west-1", "1", 350.0),)


def test_taking_starts_from_zero() -> None:
    """Nothing is counted twice, and a quiet second has no row at all."""
    routes = table()
    counter = DemandCounter()
    counter.decided(routes.route(routes.route_key(REQUEST)), decided(), 100.0)
    assert counter.take("r1", 0, 1_000) is not None
    assert counter.take("r1", 0, 1_000) is None


def test_pinned_demand_is_apart_from_new() -> None:
    """A session that stays is pinned to its region; one that was let go still claims the region that it left."""
    routes = table()
    route = routes.route(routes.route_key(REQUEST))
    counter = DemandCounter()
    counter.decided(route, decided(), 100.0, "eu-west-1")
    counter.decided(route, decided(), 30.0, "us-east-1")
    sample = counter.take("r1", 0, 1_000)
    assert sample is not None
    (row,) = sample.routes
    assert row.new_tokens == 0
    assert set(row.pinned) == {DeploymentTokens("eu-west-1", "1", 100.0), DeploymentTokens("us-east-1", "", 30.0)}
    assert row.decided == (DeploymentTokens("eu-west-1", "1", 130.0),)


def test_refused_requests_are_demand() -> None:
    """A full fleet that refuses must not look idle to the planner."""
    routes = table()
    route = routes.route(routes.route_key(REQUEST))
    counter = DemandCounter()
    counter.refused(route, 70.0)
    sample = counter.take("r1", 0, 1_000)
    assert sample is not None
    (row,) = sample.routes
    assert (row.requests, row.new_tokens, row.decided) == (1, 70.0, ())


def test_routes_of_two_plans_are_one_row() -> None:
    """A plan that is swapped within the second changes the compiled route, not the route."""
    counter = DemandCounter()
    for epoch in (100, 101):
        routes = table(epoch)
        counter.decided(routes.route(routes.route_key(REQUEST)), decided(), 10.0)
    sample = counter.take("r1", 0, 1_000)
    assert sample is not None
    assert [row.new_tokens for row in sample.routes] == [20.0]


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More distinct rows than the bound are dropped and counted as dropped."""
    monkeypatch.setattr(demand, "ROWS_MAX", 1)
    counter = DemandCounter()
    for epoch in (100, 101, 102):
        routes = table(epoch)
        counter.decided(routes.route(routes.route_key(REQUEST)), decided(), 10.0)
    assert counter.requests_dropped == 2
    sample = counter.take("r1", 0, 1_000)
    assert sample is not None
    assert sample.routes[0].requests == 1
