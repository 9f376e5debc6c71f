"""The pick: a function of shares and key alone, exact, and stable under change. Cases D3, D4, D14."""

from __future__ import annotations

from collections import Counter
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.core.pick import hash_key, rank, salt, unit, weigh


def picks(weights: list[float], keys: int) -> list[int]:
    pairs = tuple(weigh(w, salt(f"region-{i}")) for i, w in enumerate(weights))
    return [rank(hash_key(f"session-{k}"), pairs)[0] for k in range(keys)]


@pytest.mark.parametrize("shares", [[0.15, 0.15, 0.35, 0.35], [1 / 3, 1 / 3, 1 / 3]])
def test_each_share_is_met_within_three_sigma(shares: list[float]) -> None:
    """D3: over many keys, always a region, and each in proportion to its share."""
    keys = 100_000
    counts = Counter(picks(shares, keys))
    assert sum(counts.values()) == keys
    for i, share in enumerate(shares):
        assert abs(counts[i] - keys * share) < 3 * sqrt(keys * share * (1 - share))


@pytest.mark.parametrize("shares", [[0.5, 0.3, 0.2], [0.25] * 4, [0.7, 0.2, 0.08, 0.02], [1 / 12] * 12])
def test_the_second_choice_is_as_if_the_first_were_not_there(shares: list[float]) -> None:
    """When the pick fails, its keys spread over the others by their shares: the draws do not know of each other."""
    keys = 60_000
    pairs = tuple(weigh(share, salt(f"region-{i}")) for i, share in enumerate(shares))
    counts = Counter(rank(hash_key(f"session-{k}"), pairs)[:2] for k in range(keys))
    for i, first in enumerate(shares):
        for j, second in enumerate(shares):
            expected = first * second / (1 - first)
            if i != j:
                assert abs(counts[i, j] - keys * expected) < 4.5 * sqrt(keys * expected * (1 - expected))


@pytest.mark.parametrize("key_hash", [0, 1, 2**64 - 1, 2**63])
def test_hash_values_at_both_extremes_pick_somebody(key_hash: int) -> None:
    """D3: no draw is 0 or 1, so no logarithm fails."""
    candidates = (0, 1, 2**64 - 1)
    assert sorted(rank(key_hash, tuple(weigh(1 / 3, candidate) for candidate in candidates))) == [0, 1, 2]
    assert all(0 < unit(key_hash, candidate) < 1 for candidate in candidates)


def test_a_changed_share_moves_about_that_part_of_the_keys() -> None:
    """D4: from 35 to 40 of 100 moves about 5 % of the keys, all of them towards what grew."""
    before, after = picks([0.35, 0.65], 50_000), picks([0.40, 0.60], 50_000)
    moved = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert 0.04 < len(moved) / len(before) < 0.06
    assert set(moved) == {(1, 0)}


def test_a_region_that_leaves_moves_its_own_keys_only() -> None:
    """Sessions elsewhere stay where their caches are."""
    before, after = picks([0.3, 0.3, 0.4], 20_000), picks([0.3, 0.3, 1e-300], 20_000)
    assert all(a == b for a, b in zip(before, after, strict=True) if a != 2)


def test_two_equal_regions_share_a_burst() -> None:
    """D14: 200 decisions in one second between two equal regions are about 100 each."""
    counts = Counter(picks([0.5, 0.5], 200))
    assert abs(counts[0] - 100) < 4 * sqrt(200 * 0.25)


@given(
    weights=st.lists(st.floats(1e-6, 1), min_size=1, max_size=6),
    key=st.text(),
    scale=st.floats(0.1, 10),
)
def test_only_the_proportions_of_shares_matter(weights: list[float], key: str, scale: float) -> None:
    """Every candidate is ranked once, and scaling all shares alike changes no order."""
    pairs = tuple(weigh(w, salt(str(i))) for i, w in enumerate(weights))
    ranked = rank(hash_key(key), pairs)
    assert sorted(ranked) == list(range(len(weights)))
    doubled = tuple((share * 2, a, b) for share, a, b in pairs)
    assert rank(hash_key(key), doubled) == ranked


def test_a_hash_is_the_same_on_every_machine() -> None:
    """Replicas of another build must agree: these numbers never change."""
    assert hash_key("conv-81f3") == int.from_bytes(bytes.fromhex(KNOWN), "little")


KNOWN = "2b48244ef57af470"
