"""What a route remembers of its answers changes none of them."""

from __future__ import annotations

from msgspec import structs

from director.core.affinity import EXPIRY_STEP_S
from director.core.decide import decide_route
from director.core.decision import Decision, Refusal
from director.core.plan import RegionPlan
from director.core.policy import Region
from director.core.request import RouteKey
from director.core.table import RoutingTable
from tests.http.fakes import KEYRING, NOW_MS, POLICY, deployment, plan


def table() -> RoutingTable:
    """Home and overflow in one region, overflow alone in another, and a refused part."""
    deployments = (
        deployment("eu-west-1", admit_home=0.5, admit_overflow=(0.0,)),
        deployment("eu-central-1", admit_home=0.9, admit_overflow=(0.4,)),
        deployment("us-east-1", admit_overflow=(0.6,)),
    )
    return RoutingTable(
        plan(7, deployments, regions=tuple(RegionPlan(r, "fresh") for r in POLICY.regions)), POLICY, KEYRING
    )


def said(answer: Decision | Refusal) -> tuple[object, ...]:
    if isinstance(answer, Refusal):
        return (answer.code,)
    return (answer.target, answer.reason, answer.fallbacks, answer.affinity_token)


def test_remembered_and_fresh_answers_are_the_same() -> None:
    """For many keys, over token expiries: region, reason, fallbacks and token are those of a route without memory."""
    remembering, forgetful = table(), table()
    key = RouteKey("open", (), "llama", "*", None, "europe")
    reasons = set()
    for number in range(2_000):
        now_ms = NOW_MS + number * 7
        forgetful.route(key).forget_answers()
        told = decide_route(remembering, remembering.route(key), f"key-{number % 400}", now_ms)
        assert said(told) == said(decide_route(forgetful, forgetful.route(key), f"key-{number % 400}", now_ms))
        reasons.add(told.code if isinstance(told, Refusal) else told.reason)
    assert len(reasons) > 1
    assert remembering.route(key).known


def test_few_orders_are_remembered_of_many_candidates() -> None:
    """With eight regions that share, the answers of a route stay few, and every region is still in reach."""
    names = [f"r{i}" for i in range(8)]
    policy = structs.replace(
        POLICY, regions={name: Region(f"https://{name}.example.net", ("EU",)) for name in names}, rtt_ms={}, dns={}
    )
    world = RoutingTable(
        plan(7, tuple(deployment(n) for n in names), regions=tuple(RegionPlan(n, "fresh") for n in names)),
        policy,
        KEYRING,
    )
    route = world.route(RouteKey("open", (), "llama", "*", None, "default"))
    picked = set()
    for number in range(5_000):
        told = decide_route(world, route, f"key-{number}", NOW_MS)
        assert isinstance(told, Decision)
        picked.add(told.target.region)
        assert {told.target.region, *(one.region for one in told.fallbacks)} == set(names)
    assert picked == set(names)
    assert len(route.answers) <= 8 * 7 * 6


def test_tokens_live_as_long_as_promised() -> None:
    """A remembered answer's token never has less than the policy's time left, nor more than a step beyond it."""
    world = table()
    key = RouteKey("open", (), "llama", "*", None, "europe")
    for number in range(300):
        now_ms = NOW_MS + number * 113
        told = decide_route(world, world.route(key), "key-1", now_ms)
        assert isinstance(told, Decision)
        left_s = int(told.affinity_token.split(".")[3], 36) - now_ms / 1000
        assert POLICY.affinity.ttl_s < left_s <= POLICY.affinity.ttl_s + EXPIRY_STEP_S
