"""The circuit breaker: a table, a back-off, witnesses, and a cap. Cases D2, D9, D10, D11, D24."""

from __future__ import annotations

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from director.core import breaker
from director.core.breaker import BREAKER_TRANSITIONS, OWN_FIGURES, BreakerMemory, Seen, after, open_period_s
from director.core.errors import ImpossibleTransition
from director.core.observations import Outcome
from director.core.policy import Breaker, Region
from director.core.report import Errors
from tests.core.worlds import MODEL, NOW_MS, Site, World, make_policy, route_to

SETTINGS = Breaker()
NAME = "eu/m/1"


def own(failures: float = 0, successes: float = 0, retry_after_s: float | None = None) -> tuple[Seen, ...]:
    return (Seen(OWN_FIGURES, failures, successes, retry_after_s),)


def opened(now_ms: int = 0) -> BreakerMemory:
    return breaker.trip(BreakerMemory(), "tripped", (), SETTINGS, NAME, now_ms)


@pytest.mark.parametrize("state", ["closed", "open", "half_open"])
@pytest.mark.parametrize("event", ["tripped", "period_ended", "trial_failed", "trials_passed"])
def test_only_the_tables_pairs_are_possible(state: breaker.BreakerState, event: breaker.BreakerEvent) -> None:
    """An impossible pair raises and changes nothing."""
    if (state, event) in BREAKER_TRANSITIONS:
        assert after(state, event) == BREAKER_TRANSITIONS[state, event]
    else:
        with pytest.raises(ImpossibleTransition):
            after(state, event)


def test_one_failure_among_a_hundred_is_forgotten() -> None:
    """D2: a blip changes nothing, and a run of successes clears it."""
    memory = breaker.observe(BreakerMemory(), own(1, 99), SETTINGS, NAME, 0)
    assert not breaker.wants_to_open(memory, SETTINGS)
    memory = breaker.observe(memory, own(0, 50), SETTINGS, NAME, 0)
    assert memory.tallies == ()


def test_every_second_failure_does_bring_it_down() -> None:
    """Failures accumulate through interleaved successes."""
    memory = BreakerMemory()
    for _ in range(SETTINGS.failures_to_open):
        assert not breaker.wants_to_open(memory, SETTINGS)
        memory = breaker.observe(memory, own(1, 1), SETTINGS, NAME, 0)
    assert breaker.wants_to_open(memory, SETTINGS)


def test_one_success_does_not_close_it() -> None:
    """D2, D11: half-open needs the configured successes; one more failure opens it again, for longer."""
    memory = opened()
    memory = breaker.observe(memory, own(0, 1000), SETTINGS, NAME, memory.until_ms - 1)
    assert memory.state == "open", "successes while open close nothing"
    memory = breaker.observe(memory, (), SETTINGS, NAME, memory.until_ms)
    assert memory.state == "half_open"
    memory = breaker.observe(memory, own(0, SETTINGS.successes_to_close - 1), SETTINGS, NAME, memory.until_ms + 1)
    assert memory.state == "half_open"
    closed = breaker.observe(memory, own(0, 1), SETTINGS, NAME, memory.until_ms + 2)
    assert closed.state == "closed"
    again = breaker.observe(memory, own(1, 5), SETTINGS, NAME, memory.until_ms + 2)
    assert (again.state, again.opens) == ("open", 2)
    assert again.until_ms - (memory.until_ms + 2) == round(1000 * open_period_s(2, SETTINGS, NAME))


def test_open_periods_grow_to_a_maximum_and_are_the_same_everywhere() -> None:
    """The back-off doubles, is jittered by the name alone, and is bounded."""
    periods = [open_period_s(n, SETTINGS, NAME) for n in range(1, 60)]
    assert periods == sorted(periods)
    assert periods[1] == pytest.approx(2 * periods[0])
    assert periods[-1] <= SETTINGS.open_s_max * 1.1
    assert open_period_s(1, SETTINGS, "us/m/1") != periods[0]


def test_a_later_deadline_extends_and_an_earlier_does_not_shorten() -> None:
    """A failure that asks for time gets it."""
    memory = opened()
    until_ms = memory.until_ms
    assert breaker.observe(memory, own(1, 0, retry_after_s=1), SETTINGS, NAME, 5).until_ms == until_ms
    assert breaker.observe(memory, own(1, 0, retry_after_s=120), SETTINGS, NAME, 5).until_ms == 120_005


def test_back_off_starts_anew_after_a_long_calm() -> None:
    """A breaker that stayed closed for the longest open period has earned a short first one."""
    memory = BreakerMemory(opens=5, closed_at_ms=0)
    assert breaker.observe(memory, (), SETTINGS, NAME, 299_999).opens == 5
    assert breaker.observe(memory, (), SETTINGS, NAME, 300_000).opens == 0


@pytest.mark.parametrize(("reporters", "opens"), [(["a"], False), (["a", "b"], True)])
def test_one_reporter_is_not_enough(reporters: list[str], opens: bool) -> None:
    """D24: a single L7 with connection errors closes a region for nobody; two that agree do."""
    memory = BreakerMemory()
    for _ in range(10):
        seen = tuple(Seen(f"outcomes:{name}", 50, 0) for name in reporters)
        memory = breaker.observe(memory, seen, SETTINGS, NAME, 0)
    assert breaker.wants_to_open(memory, SETTINGS) is opens


def world_of(count: int) -> World:
    regions = {f"r{i}": Region(f"https://r{i}", ("EU",)) for i in range(count)}
    rtt = {name: 10.0 + 30 * i for i, name in enumerate(regions)}
    world = World(make_policy(regions, rtt_ms=rtt), {name: Site() for name in regions})
    world.demand[route_to()] = 500.0
    return world.run(300)


def test_malformed_requests_of_a_tenant_hurt_nobody() -> None:
    """D9: client errors move neither the error rate nor the breaker."""
    world = world_of(3)
    before = world.deployment("r0")
    world.sites["r0"].errors = Errors(client=100.0)
    world.outcomes = (Outcome("edge", "r0", MODEL, "1", "client", 500),)
    world.run(60)
    assert world.deployment("r0") == before


def test_backpressure_opens_no_breaker() -> None:
    """D10: 429 and 503 for half a minute: the quality falls, the breaker stays closed, the hint holds it down."""
    world = world_of(3)
    world.sites["r0"].errors = Errors(throttled=20.0)
    world.sites["r0"].retry_after_s = 10.0
    world.run(30)
    assert world.deployment("r0").breaker == "closed"
    assert world.deployment("r0").quality < 0.7
    assert world.deployment("r0").retry_after_ms is not None


def test_backpressure_that_only_an_l7_sees_lowers_the_share_too() -> None:
    """D10: the gateway turns requests away that its engines never saw: one L7 is enough to believe its own words."""
    world = world_of(3)
    seen = (
        Outcome("edge-1", "r0", MODEL, "1", "throttled", 60, 10.0),
        Outcome("edge-1", "r0", MODEL, "1", "ok", 40),
        Outcome("edge-1", "r0", MODEL, "1", "client", 900),
    )
    for _ in range(20):
        world.outcomes = seen
        world.tick()
    assert world.deployment("r0").breaker == "closed"
    assert world.deployment("r0").quality < 0.8
    assert world.deployment("r1").quality == 1.0
    world.run(60)
    assert world.deployment("r0").quality == 1.0


def test_real_errors_open_it_and_its_traffic_moves() -> None:
    """A region that fails 40 % of its requests is out within seconds, and says until when."""
    world = world_of(3)
    world.sites["r0"].errors = Errors(server=8.0)
    world.run(10)
    assert world.deployment("r0").breaker == "open"
    assert world.deployment("r0").breaker_until_ms is not None
    assert world.shares()["r0"] == 0
    assert any(e.kind == "breaker" and e.after == "open" for e in world.events)


def test_recovery_goes_through_trials() -> None:
    """When the errors end, a trial fraction comes first, then the ramp."""
    world = world_of(3)
    world.sites["r0"].errors = Errors(server=8.0)
    world.run(10)
    world.sites["r0"].errors = None
    seen = set()
    for _ in range(200):
        world.tick()
        seen.add(world.deployment("r0").breaker)
        if world.deployment("r0").breaker == "half_open":
            assert world.shares()["r0"] <= world.policy.breaker.trial_ratio + 1e-9
    assert seen >= {"half_open", "closed"}
    assert world.shares()["r0"] == 1.0


def test_the_ejection_cap_keeps_somebody_in() -> None:
    """When every region fails, at most the configured part is out; what stays in is marked."""
    world = world_of(3)
    for site in world.sites.values():
        site.errors = Errors(server=8.0)
    world.run(30)
    states = {name: world.deployment(name) for name in world.sites}
    assert sum(d.breaker == "open" for d in states.values()) == 2
    assert [d.breaker_held_in for d in states.values() if d.breaker == "closed"] == [True]


class BreakerMachine(RuleBasedStateMachine):
    """Any sequence of witnesses and time: the table is never left, and open periods end when they said."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = BreakerMemory()
        self.now_ms = NOW_MS

    @rule(
        failures=st.floats(0, 100),
        successes=st.floats(0, 100),
        witness=st.sampled_from([OWN_FIGURES, "outcomes:a", "outcomes:b", "probe:r"]),
        asks_s=st.none() | st.floats(0, 1000),
    )
    def see(self, failures: float, successes: float, witness: str, asks_s: float | None) -> None:
        before = self.memory
        self.memory = breaker.observe(
            before, (Seen(witness, failures, successes, asks_s),), SETTINGS, NAME, self.now_ms
        )
        if before.state == "open" and self.now_ms < before.until_ms:
            assert self.memory.state == "open"
            assert self.memory.until_ms >= before.until_ms
        if before.state == "half_open" and self.memory.state == "closed":
            assert before.trial_successes + successes >= SETTINGS.successes_to_close
        if before.state == "half_open" and self.memory.state == "open":
            assert failures > 0 or any(t.failures >= 1 for t in before.tallies)

    @rule(ms=st.integers(0, 400_000))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.memory = breaker.observe(self.memory, (), SETTINGS, NAME, self.now_ms)
        assert self.memory.state != "open" or self.now_ms < self.memory.until_ms

    @rule()
    def trip(self) -> None:
        if breaker.wants_to_open(self.memory, SETTINGS):
            self.memory = breaker.trip(self.memory, "tripped", (), SETTINGS, NAME, self.now_ms)

    @rule()
    def replay(self) -> None:
        """An interrupted sequence: the same step taken twice from the same memory gives the same."""
        seen = own(3, 2)
        once = breaker.observe(self.memory, seen, SETTINGS, NAME, self.now_ms)
        assert breaker.observe(structs.replace(self.memory), seen, SETTINGS, NAME, self.now_ms) == once

    @invariant()
    def bounded(self) -> None:
        assert len(self.memory.tallies) <= breaker.WITNESSES_MAX
        assert all(t.failures >= 0 for t in self.memory.tallies)


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
