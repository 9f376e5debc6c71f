"""One director with its gateways for all of these tests; each begins with everything well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.l7.world import World, world


@pytest.fixture(scope="session")
def standing_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("l7")) as found:
        yield found


@pytest.fixture
def calm_world(standing_world: World) -> World:
    standing_world.calm()
    return standing_world
