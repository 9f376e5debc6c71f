"""The past from the database: what regions last said before a moment, and what the pages make of it."""

from __future__ import annotations

import zlib

import msgspec
import pytest

from director.http.dashboard.history import History
from director.store.moments import reports_at
from tests.dashboard.conftest import Serve
from tests.dashboard.worlds import World, deployment_report


async def test_each_moment_has_the_last_report_before_it(world: World) -> None:
    """Not one that came later, not one from before the span, none for a region that was silent."""
    first_ms = await world.database.now_ms()
    await world.report("eu-west-1", deployment_report("llama-3.3-70b", 0.9))
    later_ms = await world.database.now_ms() + 1
    found = await reports_at(world.database, ["eu-west-1", "nowhere"], [first_ms, later_ms], 60_000)
    told = {one.at_ms: msgspec.json.decode(zlib.decompress(one.body_zlib))["sequence"] for one in found}
    assert told == {first_ms: 1, later_ms: 6}
    assert await reports_at(world.database, ["eu-west-1"], [first_ms - 3_600_000], 60_000) == []
    assert await reports_at(world.database, [], [later_ms], 60_000) == []


async def test_what_is_past_is_read_once(world: World) -> None:
    """A second picture needs only moments that the first did not have."""
    history = History()
    end_ms = await world.database.now_ms() + 5_000
    first = await history.series(world.database, ["eu-west-1", "us-east-1"], end_ms, 900_000)
    assert [sample for sample in first.regions["eu-west-1"] if sample is not None]
    await world.database.close()
    again = await history.series(world.database, ["eu-west-1", "us-east-1"], end_ms, 900_000)
    assert again == first


async def test_a_coarse_picture_does_not_inherit_the_gaps_of_a_fine_one(world: World) -> None:
    """A moment that the last fifteen seconds say nothing of may lie well within an hour's step."""
    history = History()
    end_ms = (await world.database.now_ms() // 480_000 + 1) * 480_000
    fine = await history.series(world.database, ["eu-west-1"], end_ms, 900_000)
    coarse = await history.series(world.database, ["eu-west-1"], end_ms, 86_400_000)
    assert coarse.regions["eu-west-1"][-1] is not None
    assert fine.moments[-1] == coarse.moments[-1]


async def test_memory_of_the_past_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past its bound everything is forgotten, and read again."""
    monkeypatch.setattr("director.http.dashboard.history.KEPT_MAX", 100)
    history = History()
    end_ms = await world.database.now_ms() + 5_000
    first = await history.series(world.database, ["eu-west-1"], end_ms, 900_000)
    assert await history.series(world.database, ["eu-west-1"], end_ms, 900_000) == first
    assert len(history._known) <= 100 + len(first.moments)


async def test_an_opened_row_has_lines_of_its_last_minutes(world: World, serve: Serve) -> None:
    """One for each deployment that said how busy it is."""
    world.view.time_ms = world.time_ms + 30_000
    page = await serve(world.view)
    for _ in range(2):
        assert (await page.get("/?open=eu-west-1")).text.count('<svg class="trend"') == 2
    assert '<svg class="trend"' not in (await page.get("/")).text
