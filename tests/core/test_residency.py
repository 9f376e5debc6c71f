"""Residency is never broken, by anything. The first property test, and the last."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from director.core import affinity
from director.core.decide import decide, targets_in_order
from director.core.decision import Decision
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.policy import Model, Objective, Policy, Region, Residency, Tenant
from director.core.request import Request
from director.core.table import RoutingTable
from tests.core.worlds import KEYRING, MODEL, NOW_MS, make_policy

TAGS = ["EU", "DE", "US", "JP"]
REGIONS = ["a", "b", "c", "d"]

tags = st.lists(st.sampled_from(TAGS), max_size=3, unique=True).map(tuple)
ratio = st.floats(0, 1)
rounds = st.lists(ratio, max_size=3).map(tuple)
tokens = st.floats(0, 1e6)


@st.composite
def deployments(draw: st.DrawFn, region: str) -> DeploymentPlan:
    return DeploymentPlan(
        region,
        MODEL,
        draw(st.sampled_from(["1", "2"])),
        state=draw(st.sampled_from(["serving", "serving", "loading", "asleep", "draining"])),
        ready_replicas=draw(st.integers(0, 3)),
        service_ms=draw(st.floats(0, 100)),
        capacity_tokens_per_s=draw(tokens),
        capacity_well_tokens_per_s=draw(tokens),
        breaker=draw(st.sampled_from(["closed", "closed", "open", "half_open"])),
        breaker_until_ms=NOW_MS + 5_000,
        headroom_tokens_per_s=draw(tokens),
        admit_captive=draw(ratio),
        admit_home=draw(ratio),
        admit_overflow=draw(rounds),
        admit_relief=draw(rounds),
        admit_overload=draw(rounds),
        release=draw(ratio),
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Policy, Plan]:
    """Any policy over four regions and any plan, consistent or not: overload, outage, static and stale included."""
    regions = {name: Region(f"https://{name}", draw(tags)) for name in REGIONS}
    rule = st.builds(Residency, anywhere=st.booleans(), allow=tags, forbid=tags)
    denied = st.lists(st.sampled_from(REGIONS), max_size=2, unique=True).map(tuple)
    tenant = st.builds(Tenant, rule, denied, st.sampled_from(["refuse", "share"]))
    policy = make_policy(
        regions,
        {"t": draw(tenant), "other": draw(tenant)},
        {name: draw(st.floats(0, 300)) for name in REGIONS},
        models={MODEL: Model("o")},
        objectives={"o": Objective(spread_ms=draw(st.floats(0, 200)), max_rtt_ms=draw(st.none() | st.floats(1, 300)))},
    )
    freshness = st.sampled_from(["fresh", "fresh", "stale", "lost", "unseen"])
    observed = tuple(
        RegionPlan(name, draw(freshness), draw(st.sampled_from(["ok", "down"])), share_cap=draw(st.none() | ratio))
        for name in REGIONS
    )
    served = tuple(draw(deployments(name)) for name in REGIONS if draw(st.booleans()))
    return policy, Plan(2, 1, 1, 1, NOW_MS, observed, served, (MODEL,), static=draw(st.booleans()))


def allowed(policy: Policy, request: Request, region: str) -> bool:
    """The rule of the contract, written down a second time."""
    tenant = policy.tenants[request.tenant]
    where = set(policy.regions[region].jurisdictions)
    rule = tenant.residency
    if region in tenant.deny_regions or where & set(rule.forbid):
        return False
    if not where and (rule.forbid or not rule.anywhere):
        return False
    if request.residency and not where & set(request.residency):
        return False
    return rule.anywhere or bool(where & set(rule.allow))


@settings(max_examples=400)
@given(
    world=worlds(),
    tenant=st.sampled_from(["t", "other"]),
    narrowed=st.lists(st.sampled_from([*TAGS, "eu", "XX"]), max_size=2, unique=True).map(tuple),
    exclude=st.lists(st.sampled_from(REGIONS), max_size=2, unique=True).map(tuple),
    key=st.text(max_size=8),
    claimed=st.none() | st.sampled_from(REGIONS),
)
def test_no_answer_ever_names_a_region_outside_the_rule(
    world: tuple[Policy, Plan],
    tenant: str,
    narrowed: tuple[str, ...],
    exclude: tuple[str, ...],
    key: str,
    claimed: str | None,
) -> None:
    """Whatever the plan says, and whatever token is shown: pick, shares, fallbacks and static maps stay inside."""
    policy, plan = world
    table = RoutingTable(plan, policy, KEYRING)
    request = Request(tenant, MODEL, "here", key, residency=narrowed, exclude=exclude)
    route = table.route(table.route_key(request))
    if claimed is not None:
        token = affinity.issue(KEYRING, claimed, NOW_MS // 1000 + 60, route.mark)
        request = Request(tenant, MODEL, "here", key, residency=narrowed, exclude=exclude, affinity=token)
    answer = decide(table, request, NOW_MS)
    named = {target.region for target in targets_in_order(route)}
    if isinstance(answer, Decision):
        assert answer.target.region not in exclude
        named |= {answer.target.region, *answer.shares, *(t.region for t in answer.fallbacks)}
    assert all(allowed(policy, request, region) for region in named)


@given(world=worlds(), key=st.text(max_size=8))
def test_what_a_route_takes_and_refuses_is_all_there_is(world: tuple[Policy, Plan], key: str) -> None:
    """Shares and the refused part sum to 1, and only candidates that pass every filter have a share."""
    policy, plan = world
    table = RoutingTable(plan, policy, KEYRING)
    route = table.route(table.route_key(Request("t", MODEL, "here", key)))
    assert abs(sum(map(route.lane.total, range(len(route.reach.order)))) + route.refused - 1) < 1e-6
    assert all(route.is_eligible(i) for i in range(len(route.reach.order)) if route.lane.total(i) > 0)


@settings(max_examples=300)
@given(
    world=worlds(),
    tenant=st.sampled_from(["t", "other"]),
    narrowed=tags,
    version=st.sampled_from(["*", "1", "2", "[13]"]),
    adapter=st.sampled_from([None, "a"]),
    zone=st.sampled_from(["here", "default"]),
)
def test_the_short_way_and_the_long_way_agree(
    world: tuple[Policy, Plan], tenant: str, narrowed: tuple[str, ...], version: str, adapter: str | None, zone: str
) -> None:
    """What a route may use, by its ranking, is what the filters allow one after the other; and as near as they say."""
    policy, plan = world
    table = RoutingTable(plan, policy, KEYRING)
    asked = Request(tenant, MODEL, zone, "s", version=version, adapter=adapter, residency=narrowed)
    route = table.route(table.route_key(asked))
    judged = {j.deployment.key: j for j in route.judged() if j.deployment is not None}
    reached = [route.deployment(i) for i in range(len(route.reach.order))]
    assert {d.key for d in reached} == {key for key, j in judged.items() if j.lasting}
    for i, d in enumerate(reached):
        assert route.is_eligible(i) == judged[d.key].eligible
        near = judged[d.key].nearness
        assert near is not None
        assert near.near_ms == route.reach.near_ms[i]
    assert list(route.reach.near_ms) == sorted(route.reach.near_ms)


@given(
    world=worlds(),
    key=st.text(max_size=8),
    exclude=st.lists(st.sampled_from(REGIONS), max_size=1).map(tuple),
    claimed=st.none() | st.sampled_from(REGIONS),
)
def test_the_first_fallback_is_what_a_retry_gets(
    world: tuple[Policy, Plan], key: str, exclude: tuple[str, ...], claimed: str | None
) -> None:
    """`exclude` with the pick answers the first of `fallbacks`; fallbacks never repeat and never name the pick."""
    policy, plan = world
    table = RoutingTable(plan, policy, KEYRING)
    token = None
    if claimed is not None:
        route = table.route(table.route_key(Request("t", MODEL, "here", key)))
        token = affinity.issue(KEYRING, claimed, NOW_MS // 1000 + 60, route.mark)
    answer = decide(table, Request("t", MODEL, "here", key, exclude=exclude, affinity=token), NOW_MS)
    if not isinstance(answer, Decision):
        return
    names = [target.region for target in answer.fallbacks]
    assert len({answer.target.region, *names}) == 1 + len(names)
    retry = (*exclude, answer.target.region)
    again = decide(table, Request("t", MODEL, "here", key, exclude=retry, affinity=token), NOW_MS)
    if names and isinstance(again, Decision):
        assert again.target == answer.fallbacks[0]
    elif not names:
        assert not isinstance(again, Decision)


def test_a_region_without_jurisdictions_is_not_reached_by_a_rule() -> None:
    """None listed, a misspelt tag, or a rule that says nothing: refused each time, with the reason."""
    policy = make_policy(
        {"eu": Region("https://eu", ()), "us": Region("https://us", ("Us",))},
        {
            "eu-only": Tenant(Residency(allow=("EU",))),
            "us-only": Tenant(Residency(allow=("US",))),
            "mute": Tenant(Residency()),
        },
    )
    plan = Plan(
        2,
        1,
        1,
        1,
        NOW_MS,
        tuple(RegionPlan(name, "fresh") for name in policy.regions),
        tuple(
            DeploymentPlan(name, MODEL, "1", ready_replicas=1, capacity_well_tokens_per_s=1) for name in policy.regions
        ),
        (MODEL,),
    )
    table = RoutingTable(plan, policy, KEYRING)
    for tenant in policy.tenants:
        answer = decide(table, Request(tenant, MODEL, "here", "s"), NOW_MS)
        assert not isinstance(answer, Decision)
        assert {r.rejection.code for r in answer.rejected} == {"residency"}
        assert answer.retry_after_s is None
