"""Our own probes are a vote of replicas: one that cannot reach a gateway judges nobody, most of them do."""

from __future__ import annotations

import pytest

from tests.core.worlds import World, probed_eu

REPLICAS = ("r1", "r2", "r3")


def probed(failing: tuple[str, ...], *, reports: bool) -> World:
    """Ninety seconds in which these replicas' probes of `eu` fail and the others' do not."""
    world = probed_eu()
    world.sites["eu"].reports = reports
    return world.run_probed(90, *((name, "eu", name not in failing) for name in REPLICAS))


def seen(world: World) -> tuple[str, str]:
    assert world.plan is not None
    region = next(r for r in world.plan.regions if r.region == "eu")
    return region.freshness, region.gateway


@pytest.mark.parametrize(("failing", "gateway"), [((), "ok"), (("r1",), "ok"), (("r1", "r2"), "down")])
def test_it_takes_most_replicas_to_call_a_reporting_regions_gateway_down(
    failing: tuple[str, ...], gateway: str
) -> None:
    """A replica cut off by itself takes no region from the others."""
    world = probed(failing, reports=True)
    assert seen(world) == ("fresh", gateway)
    assert (world.shares()["eu"] > 0) == (gateway == "ok")


@pytest.mark.parametrize(("failing", "freshness"), [(("r1",), "stale"), (("r1", "r2"), "lost")])
def test_it_takes_most_replicas_to_keep_a_silent_region_from_being_lost(
    failing: tuple[str, ...], freshness: str
) -> None:
    """Its reporter died: while most still reach its gateway it is stale, and not a moment longer."""
    assert seen(probed(failing, reports=False))[0] == freshness
