"""Decisions on a given plan: filters, nearness, fallbacks, affinity. Cases D6, D12, D13, D15, D17, D18, D19."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from director.core import affinity
from director.core.decide import decide
from director.core.decision import Decision, Refusal
from director.core.explain import explain
from director.core.plan import OperatorMark, RegionPlan
from director.core.policy import ClientZone, Location, Model, Objective, Region, Residency, Tenant
from director.core.request import Request, RouteKey
from director.core.table import RoutingTable
from tests.core.worlds import KEYRING, MODEL, NOW_MS, ask, make_deployment, make_plan, make_policy, make_table


def decided(table: RoutingTable, request: Request, now_ms: int = NOW_MS) -> Decision:
    answer = decide(table, request, now_ms)
    assert isinstance(answer, Decision), answer
    return answer


def refused(table: RoutingTable, request: Request) -> Refusal:
    answer = decide(table, request, NOW_MS)
    assert isinstance(answer, Refusal)
    return answer


def everywhere(**fields: object) -> list:  # type: ignore[type-arg]
    return [make_deployment(region, **fields) for region in ("eu", "us", "ap")]


def token_for(table: RoutingTable, region: str, now_ms: int = NOW_MS, **fields: object) -> str:
    route = table.route(table.route_key(ask(**fields)))  # type: ignore[arg-type]
    return affinity.issue(KEYRING, region, now_ms // 1000 + 600, route.mark)


def test_the_nearest_is_chosen_and_all_replicas_agree() -> None:
    """D6: three replicas with the same plan answer eu; when eu dies all three answer us, and only us."""
    policy = make_policy()
    alive = [make_table(policy, everywhere()) for _ in range(3)]
    keys = [f"s{i}" for i in range(200)]
    assert {decided(table, ask(key=k)).target.region for table in alive for k in keys} == {"eu"}
    dead = [make_table(policy, everywhere(), eu=RegionPlan("eu", "lost")) for _ in range(3)]
    assert {decided(table, ask(key=k)).target.region for table in dead for k in keys} == {"us"}


def test_equal_inputs_give_equal_bytes() -> None:
    """The same plan, request and key give the same answer, to the byte."""
    first, second = (make_table(make_policy(), everywhere()) for _ in range(2))
    for key in ("", "s", "ü", "\ud800"):
        a, b = decided(first, ask(key=key)), decided(second, ask(key=key))
        assert msgspec.json.encode(a) == msgspec.json.encode(b)


def test_capacity_counts_between_equally_near_regions() -> None:
    """D15: regions with 8 and 2 GPUs at equal distance get about 4 : 1."""
    policy = make_policy(rtt_ms={"eu": 10.0, "us": 10.0, "ap": 200.0})
    table = make_table(
        policy,
        [
            make_deployment("eu", capacity_well_tokens_per_s=8000.0),
            make_deployment("us", capacity_well_tokens_per_s=2000.0),
        ],
    )
    counts = Counter(decided(table, ask(key=f"s{i}")).target.region for i in range(5000))
    assert counts["eu"] / counts["us"] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize(
    "eu", [{"admit_home": 0.0, "admit_overflow": ()}, {"breaker": "open", "breaker_until_ms": NOW_MS}]
)
def test_a_denied_region_is_never_the_overflow(eu: dict[str, object]) -> None:
    """D17: the tenant denies us, which would be next: not in overflow, not in overload, not as a fallback."""
    tenants = {"any": Tenant(Residency(anywhere=True), deny_regions=("us",))}
    table = make_table(
        make_policy(tenants=tenants), [make_deployment("eu", **eu), make_deployment("us"), make_deployment("ap")]
    )
    for i in range(100):
        answer = decided(table, ask(key=f"s{i}"))
        assert answer.target.region == "ap"
        assert "us" not in {t.region for t in answer.fallbacks}


def test_a_denied_region_is_not_even_the_last_resort() -> None:
    """D17: when only the denied region is left, the answer is a refusal that says so."""
    tenants = {"any": Tenant(Residency(anywhere=True), deny_regions=("us",))}
    answer = refused(make_table(make_policy(tenants=tenants), [make_deployment("us")]), ask())
    assert {r.region: r.rejection.code for r in answer.rejected}["us"] == "tenant_denied"


def test_the_antimeridian_is_no_wall() -> None:
    """D18: for a client at 179.9 E, a region at 179.5 W is nearer than one at 150 E."""
    policy = make_policy(
        {
            "east": Region("https://east", ("EU",), Location(0.0, -179.5)),
            "west": Region("https://west", ("EU",), Location(0.0, 150.0)),
        },
        client_zones={"here": ClientZone(Location(0.0, 179.9))},
    )
    policy = msgspec.structs.replace(policy, rtt_ms={})
    table = make_table(policy, [make_deployment("east"), make_deployment("west")])
    assert decided(table, ask()).target.region == "east"


def test_affinity_wins_over_nearness_and_never_over_a_filter() -> None:
    """D12: a token leads to us; once us is excluded, past its drain or gone, it is as if there were none."""
    policy = make_policy()
    table = make_table(policy, everywhere())
    token = token_for(table, "us")
    answer = decided(table, ask(affinity=token))
    assert (answer.target.region, answer.reason, answer.affinity_seen) == ("us", "affinity", "honoured")
    assert decided(table, ask(affinity=token, exclude=("us",))).target.region == "eu"
    drained = RegionPlan("us", "fresh", operator=OperatorMark("drain", "ops", "upgrade", NOW_MS + 1000))
    draining = make_table(policy, everywhere(), us=drained)
    assert decided(draining, ask(affinity=token), NOW_MS).target.region == "us"
    assert decided(draining, ask(affinity=token), NOW_MS + 1000).target.region == "eu"
    assert decided(draining, ask()).target.region == "eu"
    lost = make_table(policy, everywhere(), us=RegionPlan("us", "lost", operator=drained.operator))
    assert decided(lost, ask(affinity=token)).affinity_seen == "rejected"


def test_tokens_that_are_not_ours_are_ignored() -> None:
    """Forged, expired and foreign tokens change nothing, and the answer says which they were."""
    policy = make_policy(tenants={"any": Tenant(Residency(anywhere=True)), "eu-only": Tenant(Residency(allow=("EU",)))})
    table = make_table(policy, everywhere())
    token = token_for(table, "us")
    seen = {
        "forged": token[:-2] + ("AA" if not token.endswith("AA") else "BB"),
        "expired": token_for(table, "us", NOW_MS - 700_000),
        "foreign": token_for(table, "us", tenant="eu-only"),
    }
    for verdict, presented in seen.items():
        answer = decided(table, ask(affinity=presented))
        assert (answer.target.region, answer.affinity_seen) == ("eu", verdict)
    for junk in ("", ".", "1.k1.us.zz", "1.k1.us.!!.m.s", "é" * 300, "1." * 400):
        assert decided(table, ask(affinity=junk)).affinity_seen == "forged"


def test_the_model_is_never_changed() -> None:
    """D13: the model fails in the EU and runs in the US: the same model there, never another one here."""
    table = make_table(
        make_policy(),
        [make_deployment("eu", ready_replicas=0), make_deployment("eu", model="other"), make_deployment("us")],
    )
    answer = decided(table, ask())
    assert (answer.target.region, answer.target.model) == ("us", MODEL)


def test_a_request_is_offered_to_each_region_once() -> None:
    """D19: two shedding regions take none of each other's traffic; what neither admits is refused, not bounced."""
    both = {"admit_home": 0.5, "admit_overflow": (), "admit_overload": (0.0,), "headroom_tokens_per_s": 0.0}
    policy = make_policy(rtt_ms={"eu": 10.0, "us": 15.0, "ap": 290.0})
    table = make_table(policy, [make_deployment("eu", **both), make_deployment("us", **both)])
    route = table.route(table.route_key(ask()))
    assert route.refused == pytest.approx(0.5)
    assert not route.lane.overflow
    assert not route.lane.overload


def test_versions_adapters_and_engine_states_filter() -> None:
    """A glob picks versions; an adapter must be loaded or loadable; engines asleep or loading are not ready."""
    table = make_table(
        make_policy(),
        [
            make_deployment("eu", "2026-06-02", adapters_loadable=("a",)),
            make_deployment("us", "2026-08-14", adapters_loaded=("a",)),
            make_deployment("ap", "2026-08-14", state="asleep"),
        ],
    )
    assert decided(table, ask(version="2026-08*")).target.region == "us"
    assert decided(table, ask(adapter="a")).target.region == "us", "loading an adapter costs more than the way"
    codes = {(r.region, r.rejection.code) for r in refused(table, ask(adapter="b")).rejected}
    assert codes == {("eu", "adapter_unavailable"), ("us", "adapter_unavailable"), ("ap", "adapter_unavailable")}
    assert {r.rejection.code for r in refused(table, ask(version="2025*")).rejected} == {"version_unavailable"}


def test_too_far_holds_for_known_zones_only() -> None:
    """Round trips beyond the objective's maximum are dropped; a client in no zone is never too far."""
    policy = make_policy(objectives={"o": Objective(spread_ms=20.0, max_rtt_ms=15.0)})
    table = make_table(policy, [make_deployment("us")])
    assert {r.rejection.code for r in refused(table, ask()).rejected if r.region == "us"} == {"too_far"}
    assert decided(table, Request("any", MODEL, "default", "s")).target.region == "us"


def test_unknown_names_are_refused_as_such() -> None:
    """An unknown tenant and a model that nobody ever served are not "no region"."""
    table = make_table(make_policy(), everywhere())
    assert refused(table, ask("nobody")).code == "tenant_unknown"
    assert refused(table, Request("any", "no-such-model", "here", "s")).code == "model_unknown"


def test_retry_after_only_when_waiting_helps() -> None:
    """A permanent reason promises nothing; an open breaker says when its period ends."""
    policy = make_policy({"us": Region("https://us", ("US",))}, {"any": Tenant(Residency(allow=("EU",)))})
    assert refused(make_table(policy, [make_deployment("us")]), ask()).retry_after_s is None
    open_ = make_deployment("eu", breaker="open", breaker_until_ms=NOW_MS + 41_200)
    only_eu = make_policy({"eu": Region("https://eu", ("EU",))})
    assert refused(make_table(only_eu, [open_]), ask()).retry_after_s == 42


def test_regions_of_tenants_with_equal_rules_share_a_route() -> None:
    """A route stands for rules, not for names."""
    rule = Tenant(Residency(allow=("EU", "US")))
    table = make_table(make_policy(tenants={"b": rule, "a": Tenant(Residency(allow=("US", "EU")))}), everywhere())
    assert table.route_key(ask("a")) == table.route_key(ask("b"))


def test_an_operators_cap_holds_over_home_overflow_and_overload() -> None:
    """A capped region takes no more than its cap of the route; the rest moves on."""
    table = make_table(make_policy(), everywhere(), eu=RegionPlan("eu", "fresh", share_cap=0.25))
    route = table.route(table.route_key(ask()))
    assert route.shares == {"eu": 0.25, "us": 0.75}


def test_the_table_is_bounded_and_carries_routes_over() -> None:
    """Many different requests do not fill the memory; routes in use are compiled before a new plan serves."""
    policy = make_policy()
    table = RoutingTable(make_plan(policy, everywhere()), policy, KEYRING, routes_max=10)
    for i in range(50):
        decide(table, ask(version=f"v{i}"), NOW_MS)
    assert len(table.routes()) == 10
    after = RoutingTable(make_plan(policy, everywhere(), epoch=2), policy, KEYRING, previous=table)
    assert {r.key for r in after.routes()} == {r.key for r in table.routes()}


def test_a_new_plan_recompiles_only_what_it_changes() -> None:
    """Routes of a model that a plan leaves alone go on with their answers; those of a changed one are made anew."""
    policy = make_policy(models={MODEL: Model("o"), "other": Model("o")})
    plan = make_plan(policy, [*everywhere(), make_deployment("us", model="other")])
    table = RoutingTable(plan, policy, KEYRING)
    routes = {model: table.route(RouteKey("any", (), model, "*", None, "here")) for model in (MODEL, "other")}
    shedding = [make_deployment("eu", admit_home=0.5, admit_overflow=()), make_deployment("us"), make_deployment("ap")]
    changed = make_plan(policy, [*shedding, make_deployment("us", model="other")], epoch=2)
    after = RoutingTable(changed, policy, KEYRING, previous=table)
    kept = {route.key.model: route for route in after.routes()}
    assert kept["other"] is routes["other"]
    assert kept["other"].index is after.index
    assert kept[MODEL] is not routes[MODEL]
    assert kept[MODEL].shares["eu"] == pytest.approx(0.5)
    drained = make_plan(policy, list(changed.deployments), epoch=3, us=RegionPlan("us", "lost"))
    last = RoutingTable(drained, policy, KEYRING, previous=after)
    assert all(route.index is last.index for route in last.routes())
    assert not any(route.shares.get("us") for route in last.routes())


def test_an_explanation_names_every_region_and_agrees_with_the_decision() -> None:
    """Each candidate has its rejection or its terms, and the pick is the one that was decided."""
    table = make_table(
        make_policy(), [make_deployment("eu"), make_deployment("us", breaker="open", breaker_until_ms=NOW_MS)]
    )
    told = explain(table, ask(), NOW_MS)
    assert told.region == decided(table, ask()).target.region
    assert {c.region: c.rejection.code if c.rejection else None for c in told.candidates} == {
        "eu": None,
        "us": "breaker_open",
        "ap": "model_unavailable",
    }
    near = told.candidates[0].nearness
    assert near is not None
    assert near.near_ms == near.rtt_ms + near.service_ms + near.adapter_load_ms + near.price_ms
    assert msgspec.json.decode(msgspec.json.encode(told))["candidates"][1]["rejection"]["permanent"] is False
