"""The planner's step over time: freshness, shedding, return, silence, quiet. Cases D2, D7, D8, D16, D20, D21, D22."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from msgspec import structs

from director.core.base import deployment_plans
from director.core.flows import Memo
from director.core.invariants import check_invariants
from director.core.observations import Observations, OperatorSetting
from director.core.plan import Plan
from director.core.policy import Model, Probe, Region, Residency, Tenant
from director.core.state import PlannerState
from director.core.step import step
from tests.core.worlds import NOW_MS, Site, World, make_policy, probed_eu, route_to


def two_regions(tenants: dict[str, Tenant] | None = None) -> World:
    """eu and us of 1,000 tokens/s each; everybody's home is eu."""
    policy = make_policy({"eu": Region("https://eu", ("EU",)), "us": Region("https://us", ("US",))}, tenants)
    return World(policy, {"eu": Site(), "us": Site()})


def test_a_quiet_hour_makes_no_plan_and_no_event() -> None:
    """D20: with nothing changing, the heartbeat alone is left."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.run(300)
    plans, events = len(world.plans), len(world.events)
    world.run(3600)
    assert (len(world.plans), len(world.events)) == (plans, events)


def test_demand_beyond_capacity_spills_in_proportion_and_settles() -> None:
    """D7: at 150 % of the home's budget a third overflows, within seconds, and stays so."""
    world = two_regions()
    world.demand[route_to()] = 600.0
    world.run(60)
    assert world.shares()["eu"] == 1.0
    world.demand[route_to()] = 1350.0
    world.run(20)
    assert world.shares()["eu"] == pytest.approx(900 / 1350, abs=0.04)
    assert world.shares()["us"] == pytest.approx(450 / 1350, abs=0.04)
    settled = world.shares()
    for _ in range(60):
        world.tick()
        assert abs(world.shares()["eu"] - settled["eu"]) < 0.05


def test_both_full_are_marked_and_the_rest_is_refused() -> None:
    """D7: beyond every target comes the ceiling, and beyond that the refusal; a refusing tenant stops earlier."""
    tenants = {
        "any": Tenant(Residency(anywhere=True)),
        "strict": Tenant(Residency(anywhere=True), on_overload="refuse"),
    }
    world = two_regions(tenants)
    world.demand[route_to()] = 3000.0
    world.run(60)
    shares = world.shares()
    # 1.10 of capacity each, at most 2,200 of 3,000 (κ and trim may say a little less).
    assert shares["refused"] == pytest.approx(1 - 2200 / 3000, abs=0.06)
    assert world.shares("strict")["refused"] > shares["refused"]


def test_guests_do_not_push_out_residents() -> None:
    """D7: when eu overflows into us, the clients whose home is us keep their place."""
    policy = make_policy(
        {"eu": Region("https://eu", ("EU",)), "us": Region("https://us", ("US",))},
        {"any": Tenant(Residency(anywhere=True)), "us-only": Tenant(Residency(allow=("US",)))},
    )
    world = World(policy, {"eu": Site(), "us": Site()})
    world.demand = {route_to(): 3000.0, route_to("us-only"): 700.0}
    world.run(60)
    assert world.shares("us-only")["us"] == 1.0


def test_two_regions_that_shed_take_nothing_from_each_other() -> None:
    """No mutual overflow: neither takes guests while it turns its own away."""
    policy = make_policy(
        {"eu": Region("https://eu", ("EU",)), "us": Region("https://us", ("US",))},
        {"e": Tenant(Residency(allow=("EU", "US"))), "u": Tenant(Residency(allow=("US",), forbid=("EU",)))},
    )
    world = World(policy, {"eu": Site(), "us": Site()})
    world.demand = {route_to("e"): 2000.0, route_to("u"): 2000.0}
    world.run(30)
    for name in ("eu", "us"):
        assert world.deployment(name).admit_overflow == ()


def test_who_can_move_moves_and_the_captive_stay() -> None:
    """D22: half of the demand may use eu only; when eu fills, the other half moves and the captive are served."""
    tenants = {"any": Tenant(Residency(anywhere=True)), "eu-only": Tenant(Residency(allow=("EU",)))}
    world = two_regions(tenants)
    world.demand = {route_to(): 700.0, route_to("eu-only"): 700.0}
    world.run(40)
    assert world.shares("eu-only")["eu"] == 1.0
    assert world.shares()["eu"] < 0.4
    assert world.shares()["us"] == pytest.approx(1 - world.shares()["eu"], abs=1e-6)


def test_pinned_sessions_are_let_go_by_hash_and_never_all_at_once() -> None:
    """D21: 74 % pinned and the demand doubles: new sessions go elsewhere first, then a fraction of the pinned."""
    world = two_regions()
    world.demand[route_to()] = 208.0
    world.pinned[route_to()] = {"eu": 592.0}
    world.run(60)
    assert world.deployment("eu").release == 0.0
    world.demand[route_to()] = 416.0
    world.pinned[route_to()] = {"eu": 1184.0}
    world.run(20)
    eu = world.deployment("eu")
    assert eu.admit_home == 0.0
    assert 0.1 < eu.release < 0.4
    assert world.shares()["us"] == 1.0


def test_a_region_goes_stale_then_lost_and_returns_by_the_ramp() -> None:
    """D8: after its return a region's share climbs from near zero at the pace that the policy sets."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.run(30)
    world.sites["eu"].reports = False
    world.run(15)
    assert next(r for r in world.plan.regions if r.region == "eu").freshness == "stale"  # type: ignore[union-attr]
    assert world.shares()["eu"] == 1.0
    world.run(25)
    assert world.shares()["us"] == 1.0
    world.run(1200)
    world.sites["eu"].reports = True
    world.run(6)
    assert 0 < world.shares()["eu"] <= 0.15
    climbing = []
    for _ in range(60):
        world.tick()
        climbing.append(world.shares()["eu"])
    assert all(b - a <= 0.0201 for a, b in pairwise(climbing))
    assert climbing[-1] == 1.0


def test_a_failure_during_the_ramp_starts_it_again() -> None:
    """D8: what fails while it comes back begins at the beginning."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.run(30)
    world.sites["eu"].health = "down"
    world.run(10)
    world.sites["eu"].health = "ok"
    world.run(25)
    halfway = world.shares()["eu"]
    assert 0.3 < halfway < 0.7
    world.sites["eu"].health = "down"
    world.run(6)
    world.sites["eu"].health = "ok"
    world.run(6)
    assert world.shares()["eu"] < 0.2


def test_the_only_region_that_serves_a_model_stays_chosen_when_late() -> None:
    """D16: reports 10 s late are stale, not gone: still chosen, without a jump."""
    world = World(make_policy({"eu": Region("https://eu", ("EU",))}), {"eu": Site()})
    world.demand[route_to()] = 500.0
    world.run(30)
    world.report_every_s = 20
    for _ in range(60):
        world.tick()
        assert world.shares()["eu"] == 1.0


def test_when_everybody_falls_silent_the_fault_is_ours() -> None:
    """Mass silence keeps the last plan, flagged; a refusal would be worse than old news."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.run(30)
    for site in world.sites.values():
        site.reports = False
    world.run(120)
    assert world.plan is not None
    assert world.plan.static
    assert world.shares()["eu"] == 1.0
    for site in world.sites.values():
        site.reports = True
    world.run(10)
    assert not world.plan.static


def test_reporters_that_fall_silent_one_after_the_other_are_still_one_silence() -> None:
    """Agents report at moments of their own: no two regions are lost in the same tick, and yet the fault is ours."""
    regions = {f"r{i}": Region(f"https://r{i}", ("EU",)) for i in range(4)}
    world = World(make_policy(regions), {name: Site() for name in regions})
    world.demand[route_to()] = 1500.0
    world.run(60)
    before = world.shares()
    for site in world.sites.values():
        site.reports = False
        world.run(5)
    world.run(120)
    assert world.plan is not None
    assert world.plan.static
    assert world.shares() == pytest.approx(before, abs=0.05)


def test_an_idle_deployment_is_not_kept_out_by_its_own_figure() -> None:
    """A capacity that lets nobody in could never be disproved: it is forgotten."""
    world = two_regions()
    world.demand[route_to()] = 600.0
    world.run(120)
    world.sites["eu"].rate = 0.01
    world.run(120)
    assert world.shares()["eu"] < 0.2
    world.sites["eu"].rate = 10.0
    world.run(300)
    assert world.shares()["eu"] == 1.0


def test_probes_confirm_a_silence() -> None:
    """When our own probes fail too, silence is the regions' and not ours."""
    regions = {name: Region(f"https://{name}", ("EU",), probe=Probe("https://x", 5, 2, 2)) for name in ("eu", "us")}
    world = World(make_policy(regions), {"eu": Site(), "us": Site()})
    world.demand[route_to()] = 500.0
    world.run(30)
    world.sites["eu"].reports = world.sites["us"].reports = False
    world.run_probed(60, ("r", "eu", False), ("r", "us", False))
    assert world.plan is not None
    assert not world.plan.static


def test_a_reporter_that_dies_is_not_a_region_that_died() -> None:
    """A gateway that still answers the probes keeps its region stale, with overflow forbidden."""
    world = probed_eu()
    world.sites["eu"].reports = False
    world.run_probed(90, ("r", "eu", True))
    assert next(r for r in world.plan.regions if r.region == "eu").freshness == "stale"  # type: ignore[union-attr]
    assert world.shares()["eu"] == 1.0
    assert world.deployment("eu").admit_overflow == ()


def test_an_outage_of_the_database_ages_no_region() -> None:
    """Reports that could not be stored are our silence."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.run(30)
    world.seconds += 600
    world.outage_ms = 600_000
    world.tick()
    assert {r.freshness for r in world.plan.regions} == {"fresh"}  # type: ignore[union-attr]


def test_operators_win_until_they_say_otherwise() -> None:
    """A drain acts at once, wins over what is observed, and its end brings the region back by the ramp."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.run(30)
    world.operators = (OperatorSetting("eu", "drain", "ops", "upgrade", world.now_ms),)
    world.tick()
    assert world.shares()["us"] == 1.0
    world.operators = ()
    world.run(2)
    assert 0 < world.shares()["eu"] < 0.1


def test_errors_and_throttling_lower_the_quality_and_pass() -> None:
    """10 % throttled lowers what is admitted; a hint to wait holds it down until it passes."""
    from director.core.report import Errors

    world = two_regions()
    world.demand[route_to()] = 880.0
    world.run(30)
    world.sites["eu"].errors = Errors(throttled=10.0)
    world.sites["eu"].retry_after_s = 10.0
    world.run(30)
    eu = world.deployment("eu")
    assert eu.breaker == "closed"
    assert eu.quality < 0.8
    assert world.shares()["eu"] < 0.95
    world.sites["eu"].errors = None
    world.sites["eu"].retry_after_s = None
    world.run(120)
    assert world.deployment("eu").quality == 1.0


def test_what_shares_send_is_counted_beside_what_picks_did() -> None:
    """Between two reports: published demand × shares, and what is pinned there, whatever replicas say they picked."""
    world = two_regions()
    world.demand[route_to()] = 1350.0
    world.pinned[route_to()] = {"us": 50.0}
    world.run(57)
    before = {m.region: m.foreseen_since_report for m in world.state.deployments}
    world.tick()
    (route,) = world.state.routes
    shares = world.shares()
    for memory in world.state.deployments:
        pinned = 50.0 if memory.region == "us" else 0.0
        gained = memory.foreseen_since_report - before[memory.region]
        assert gained == pytest.approx(route.new.published * shares[memory.region] + pinned, rel=0.01)


def test_a_trim_that_fell_too_far_rises_while_relief_fills_what_stands_empty() -> None:
    """A region at 70 % of its slots, whose trim says that it is full: relief serves them, and the trim is mended."""
    policy = make_policy(
        {"eu": Region("https://eu", ("EU",))}, {"any": Tenant(Residency(anywhere=True), on_overload="refuse")}
    )
    world = World(policy, {"eu": Site()}, {route_to(): 700.0})
    world.run(60)
    fallen = [structs.replace(m, trim=0.6, trim_published=0.6) for m in world.state.deployments]
    world.state = structs.replace(world.state, deployments=tuple(fallen))
    world.run(90)
    assert world.deployment("eu").trim > 0.75
    assert world.shares()["refused"] < 0.05


def test_a_version_upgrade_keeps_the_regions_place() -> None:
    """A new version in the place of an old one goes on from where that was, not from zero."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.run(60)
    world.sites["eu"].version = "2"
    world.run(6)
    assert world.shares()["eu"] == 1.0


def test_scaling_to_zero_and_back() -> None:
    """No ready replica: not eligible at once; the home share waits for it."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.run(30)
    world.sites["eu"].replicas = 0
    world.run(6)
    assert world.shares()["us"] == 1.0
    assert world.deployment("eu").capacity_well_tokens_per_s > 0


def test_the_pace_yields_before_anybody_is_refused() -> None:
    """When the only other region is full, a returning one takes what it can rather than have it refused."""
    tenants = {"any": Tenant(Residency(anywhere=True), on_overload="refuse")}
    world = two_regions(tenants)
    world.demand[route_to()] = 1400.0
    world.run(30)
    world.sites["eu"].replicas = 0
    world.run(60)
    assert world.shares()["refused"] > 0.3
    world.sites["eu"].replicas = 4
    world.run(6)
    assert world.shares()["refused"] < 0.05


def test_a_step_depends_on_its_arguments_alone() -> None:
    """Equal inputs give equal bytes, with the memo of other ticks or with none."""
    memo = Memo()
    world = two_regions()
    world.demand = {route_to(): 1300.0}
    for _ in range(40):
        observations = world.observations()
        arguments = (world.state, observations, world.policy, world.now_ms + 1000)
        plain, remembered = step(*arguments), step(*arguments, memo=memo)
        assert msgspec.msgpack.encode(plain) == msgspec.msgpack.encode(remembered)
        world.tick()


def test_state_and_plan_survive_encoding() -> None:
    """What is stored comes back equal: a planner that starts from the state row goes on as if nothing happened."""
    kept, reloaded = two_regions(), two_regions()
    for world in (kept, reloaded):
        world.demand[route_to()] = 1300.0
    for _ in range(40):
        kept.tick()
        reloaded.tick()
        reloaded.state = msgspec.json.decode(msgspec.json.encode(reloaded.state), type=PlannerState)
        assert reloaded.state == kept.state
    assert msgspec.json.decode(msgspec.json.encode(kept.plan), type=Plan) == kept.plan


def test_epochs_only_grow() -> None:
    """The next epoch is beyond the previous one and beyond the database's seconds, whatever the store remembers."""
    world = two_regions()
    result = step(PlannerState(), Observations(), world.policy, NOW_MS, previous_epoch=NOW_MS, term=3)
    assert result.plan is not None
    assert (result.plan.epoch, result.plan.previous, result.plan.term) == (NOW_MS + 1, NOW_MS, 3)


def test_before_any_report_nobody_is_chosen() -> None:
    """D1: with nothing stored and nothing reported there is no arbitrary region."""
    world = two_regions()
    result = step(PlannerState(), Observations(), world.policy, NOW_MS)
    assert result.plan is not None
    assert result.plan.deployments == ()
    assert {r.freshness for r in result.plan.regions} == {"unseen"}
    check_invariants(result.plan, world.policy)


def test_reports_of_regions_and_models_outside_the_policy_are_harmless() -> None:
    """A region that the policy dropped is ignored; a model that it does not know is kept and never routed."""
    world = two_regions()
    world.sites["mars"] = Site()
    world.run(10)
    assert {d.region for d in world.plan.deployments} == {"eu", "us"}  # type: ignore[union-attr]
    world.policy = structs.replace(world.policy, models={"other": Model("o")})
    world.run(10)
    assert "m" not in world.table().models


def test_a_fleet_that_starts_is_not_eased_in_one_by_one() -> None:
    """While the first reports come in, who appears takes its home at once; who joins later climbs."""
    world = two_regions()
    world.demand[route_to()] = 500.0
    world.sites["eu"].reports = False
    world.run(3)
    assert world.shares()["us"] == 1.0
    world.sites["eu"].reports = True
    world.run(4)
    assert world.shares()["eu"] == 1.0
    late = two_regions()
    late.demand[route_to()] = 500.0
    late.sites["eu"].reports = False
    late.run(60)
    late.sites["eu"].reports = True
    late.run(6)
    assert 0 < late.shares()["eu"] < 0.15


def test_first_tokens_of_other_prompts_are_not_compared() -> None:
    """A region whose own clients send prompts twice as long is not farther for that: it takes the model's median."""
    world = two_regions()
    world.demand[route_to()] = 600.0
    world.run(200)
    memories = {m.region: m for m in world.state.deployments}
    slow = structs.replace(memories["us"].service_ms, published=900.0, samples=9)
    quick = structs.replace(memories["eu"].service_ms, published=300.0, samples=9)
    for factor, expected in ((1.0, 900.0), (4.0, 600.0)):
        mix = structs.replace(memories["eu"].mix, prompt=memories["eu"].mix.prompt * factor)
        plans = deployment_plans(
            [
                structs.replace(memories["eu"], service_ms=quick),
                structs.replace(memories["us"], service_ms=slow, mix=mix),
            ],
            world.policy,
        )
        assert [plan.service_ms for plan in plans][1] == expected
