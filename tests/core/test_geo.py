"""Distances and round trips."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from director.core.geo import RoundTrips, great_circle_km, round_trip_ms, rtt_ms_from_distance
from director.core.policy import ClientZone, Location, Policy, Region

LOCATIONS = st.builds(Location, lat=st.floats(-90, 90), lon=st.floats(-180, 180))
HALF_WAY_ROUND_KM = math.pi * 6371.0088


def policy(
    regions: dict[str, Location | None],
    zones: dict[str, Location | None],
    rtt_ms: dict[str, dict[str, float]] | None = None,
) -> Policy:
    return Policy(
        jurisdictions=(),
        regions={name: Region(endpoint=f"https://{name}.example", location=at) for name, at in regions.items()},
        models={},
        tenants={},
        objectives={},
        client_zones={name: ClientZone(location=at) for name, at in zones.items()},
        rtt_ms=rtt_ms or {},
    )


@pytest.mark.parametrize(
    ("a", "b", "km"),
    [
        (Location(51.5074, -0.1278), Location(48.8566, 2.3522), 344),
        (Location(40.6413, -73.7781), Location(51.4700, -0.4543), 5540),
        (Location(90, 0), Location(-90, 77), 20015),
        (Location(0, 179.5), Location(0, -179.5), 111),
    ],
)
def test_known_distances(a: Location, b: Location, km: float) -> None:
    """London–Paris, New York–London, pole to pole, and one degree across the antimeridian come out within 0.5 %."""
    assert great_circle_km(a, b) == pytest.approx(km, rel=0.005)


def test_a_client_just_west_of_the_antimeridian_is_nearest_to_a_region_just_east_of_it() -> None:
    """From 179.9 E a region at 179.5 W is nearer than one at 150 E."""
    fleet = policy({"east": Location(-17, -179.5), "west": Location(-17, 150)}, {"fiji": Location(-17, 179.9)})
    assert round_trip_ms(fleet, "fiji", "east") < round_trip_ms(fleet, "fiji", "west")


@settings(deadline=None)
@given(LOCATIONS, LOCATIONS)
def test_distance_is_symmetric_and_bounded(a: Location, b: Location) -> None:
    """A distance is the same both ways, at most half way round, and 0 from a place to itself."""
    there, back = great_circle_km(a, b), great_circle_km(b, a)
    assert there == pytest.approx(back, abs=1e-6)
    assert 0 <= there <= HALF_WAY_ROUND_KM + 1e-6
    assert great_circle_km(a, a) == 0


@settings(deadline=None)
@given(LOCATIONS, LOCATIONS, st.sampled_from([-360, 360]))
def test_a_whole_turn_changes_nothing(a: Location, b: Location, turn_degrees: int) -> None:
    """Longitudes are angles: 179.9 and −180.1 are one place."""
    turned = Location(b.lat, b.lon + turn_degrees)
    assert great_circle_km(a, turned) == pytest.approx(great_circle_km(a, b), abs=1e-3)


@settings(deadline=None)
@given(st.floats(0, 20_100), st.floats(0, 20_100))
def test_farther_is_never_sooner_and_never_faster_than_light(a_km: float, b_km: float) -> None:
    """The estimate grows with distance and stays above what light in fibre needs (0.0098 ms/km there and back)."""
    near_km, far_km = sorted((a_km, b_km))
    assert rtt_ms_from_distance(near_km) <= rtt_ms_from_distance(far_km)
    assert rtt_ms_from_distance(far_km) > far_km * 0.0098


def test_what_was_measured_wins_over_coordinates() -> None:
    """The matrix first, coordinates for what it leaves out."""
    fleet = policy({"a": Location(50, 8), "b": Location(53, -6)}, {"europe": Location(50, 8)}, {"europe": {"a": 3.0}})
    assert round_trip_ms(fleet, "europe", "a") == (3.0, "matrix")
    estimate_ms, source = round_trip_ms(fleet, "europe", "b")
    assert source == "distance"
    assert estimate_ms == pytest.approx(8 + 0.0155 * great_circle_km(Location(50, 8), Location(53, -6)))


def test_a_client_in_no_zone_is_as_far_from_everywhere_as_anybody_is_from_anything() -> None:
    """In the zone `default`, and in a zone the policy does not know, every region has the worst round trip known."""
    fleet = policy({"a": None, "b": None}, {"x": None, "y": None}, {"x": {"a": 10, "b": 88}, "y": {"a": 120, "b": 7}})
    for zone in ("default", "nowhere"):
        assert {round_trip_ms(fleet, zone, region) for region in "ab"} == {(120, "worst")}


def test_a_row_for_the_default_zone_is_believed() -> None:
    """`rtt_ms.default` is a statement like any other, and says nothing about how far the worst is."""
    fleet = policy({"a": None, "b": None}, {"x": None}, {"x": {"a": 10, "b": 20}, "default": {"a": 900}})
    assert round_trip_ms(fleet, "default", "a") == (900, "matrix")
    assert round_trip_ms(fleet, "default", "b") == (20, "worst")


def test_a_region_without_coordinates_or_measurement_counts_as_the_worst() -> None:
    """Unknown is far, not near."""
    fleet = policy({"known": Location(0, 90), "unknown": None}, {"z": Location(0, 0)})
    trips = RoundTrips(fleet)
    assert trips.ms("z", "unknown") == (trips.ms("z", "known")[0], "worst")


def test_nothing_known_is_equally_near() -> None:
    """Without any round trip or coordinates, nearness has nothing to say: 0 for all."""
    assert round_trip_ms(policy({"a": None}, {"z": None}), "z", "a") == (0.0, "worst")
