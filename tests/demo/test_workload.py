"""Requests come as in the trace they are modelled on, from where the example policy's zones are."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from statistics import fmean, pvariance

import pytest

from director.core.zones import ZoneIndex
from director.demo.layout import AUDIENCES, DAY_S, FAILING_REGIONS, PEAK_AT, REGIONS, Audience
from director.demo.workload import CONTEXT_TOKENS, GENERATED_TOKENS, Workload, rate_per_s, value_at
from director.policy.load import load
from director.resources import policies_dir


def test_lengths_have_the_traces_means() -> None:
    """1,155 tokens of context and 211 generated, within five in a hundred."""
    random = Random(1)
    assert fmean(value_at(CONTEXT_TOKENS, random.random()) for _ in range(50_000)) == pytest.approx(1155, rel=0.05)
    assert fmean(value_at(GENERATED_TOKENS, random.random()) for _ in range(50_000)) == pytest.approx(211, rel=0.05)


def test_quantiles_are_quantiles() -> None:
    """Both coordinates rise."""
    for quantiles in (CONTEXT_TOKENS, GENERATED_TOKENS):
        assert all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(quantiles))
        assert (quantiles[0][0], quantiles[-1][0]) == (0.0, 1.0)


def test_arrivals_are_burstier_than_poissons() -> None:
    """A second's count at the trace's rate varies 1.4 times as much as its mean; a Poisson stream's once."""
    flat = Audience("europe", "198.18", (0, 127), "open", "m", 5.5)
    workload = Workload(3, [flat])
    counts = [sum(1 for _ in workload.second(PEAK_AT["europe"] * DAY_S + DAY_S / 4)) for _ in range(3_000)]
    assert fmean(counts) == pytest.approx(5.5, rel=0.1)
    assert 1.2 < pvariance(counts) / fmean(counts) < 1.7


def test_the_same_seed_asks_the_same() -> None:
    """And another one something else."""

    def asked(seed: int) -> list[tuple[float, str, int]]:
        return [(offset_s, ask.session.client_ip, ask.prompt_tokens) for offset_s, ask in Workload(seed).second(0.0)]

    assert asked(5) == asked(5)
    assert asked(5) != asked(6)


def test_a_conversation_goes_on_with_its_token_after_a_pause() -> None:
    """The same session and address; never before its last answer was read."""
    workload = Workload(7, AUDIENCES[:1])
    first = next(ask for at_s in range(100) for _, ask in workload.second(float(at_s)))
    workload.give_back(first, "token", 100.0)
    soon = [ask.session.id for _, ask in workload.second(100.0)]
    assert first.session.id not in soon
    later = [ask.session for at_s in range(110, 140) for _, ask in workload.second(float(at_s))]
    continued = [session for session in later if session.id == first.session.id]
    assert len(continued) == 1
    assert continued[0].affinity == "token"


def test_each_zone_has_its_peak() -> None:
    """Half as much again, then less than two thirds."""
    europe = AUDIENCES[0]
    peak_s = PEAK_AT[europe.zone] * DAY_S
    assert rate_per_s(europe, peak_s) > 1.4 * europe.requests_per_s
    assert rate_per_s(europe, peak_s + DAY_S / 2) < 0.65 * europe.requests_per_s


def test_the_layout_fits_the_example_policy() -> None:
    """Its regions, models, tenants and client networks are the policy's own."""
    policy = load(policies_dir()).policy
    assert {plan.region for plan in REGIONS} == set(policy.regions)
    assert {pool.model for plan in REGIONS for pool in plan.pools} == set(policy.models)
    assert set(FAILING_REGIONS) <= set(policy.regions)
    zones = ZoneIndex(policy)
    seen: Counter[str] = Counter()
    workload = Workload(11)
    for at_s in range(60):
        for _, ask in workload.second(float(at_s)):
            assert ask.audience.tenant in policy.tenants
            assert zones.zone_of(ask.session.client_ip) == ask.audience.zone
            seen[ask.audience.zone] += 1
    assert set(seen) == set(PEAK_AT)
