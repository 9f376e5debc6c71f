"""Speed and size of the core: `decide`, compiling a route, a step, and how they grow. Prints one table.

    python benchmarks/core.py [--quick]

Times are the median of repeated runs in one process, CPU time, and for a step the least as well: what neighbours on the
machine add to a tick is not the step's. Sizes are what `tracemalloc` counts.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable
from random import Random

import msgspec

from director.core.affinity import KeyRing
from director.core.decide import decide_route
from director.core.flows import Memo
from director.core.observations import (
    DemandSample,
    DeploymentTokens,
    Observations,
    ReceivedReport,
    RouteDemand,
)
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.policy import ClientZone, Location, Model, Objective, Policy, Region, Residency, Tenant
from director.core.ranking import PlanIndex
from director.core.report import Arrived, Completed, DeploymentReport, Errors, Replicas, Report, Ttft
from director.core.request import RouteKey
from director.core.route import CompiledRoute
from director.core.state import PlannerState
from director.core.step import step
from director.core.table import RoutingTable
from director.planner.run import GC_ALLOCATIONS

NOW_MS = 1_900_000_000_000
KEYRING = KeyRing("k", {"k": b"0" * 32})


def median_us(work: Callable[[int], object], count: int, repeats: int = 7) -> float:
    """Median over repeats of the mean CPU time of one call, microseconds."""
    times = []
    for _ in range(repeats):
        gc.collect()
        begin = time.process_time()
        for i in range(count):
            work(i)
        times.append((time.process_time() - begin) / count * 1e6)
    return statistics.median(times)


def fleet(regions: int, models: int, tenants: int = 40) -> Policy:
    draw = Random(1)
    return Policy(
        jurisdictions=("EU", "US", "JP"),
        regions={
            f"region-{i}": Region(
                f"https://region-{i}.example.net",
                (("EU", "US", "JP")[i % 3],),
                Location(draw.uniform(-60, 60), draw.uniform(-180, 180)),
                price_per_mtok=draw.uniform(0.3, 0.6),
            )
            for i in range(regions)
        },
        models={f"model-{i}": Model("interactive") for i in range(models)},
        tenants={
            f"tenant-{i}": Tenant(
                Residency(allow=("EU", "US", "JP")[: 1 + i % 3]), on_overload=("share", "refuse")[i % 2]
            )
            for i in range(tenants)
        },
        objectives={"interactive": Objective(spread_ms=15, ms_per_price=20)},
        client_zones={
            f"zone-{i}": ClientZone(Location(draw.uniform(-60, 60), draw.uniform(-180, 180))) for i in range(10)
        },
    )


def eight_candidates() -> tuple[RoutingTable, CompiledRoute]:
    """One route of eight candidates, of which three hold a share."""
    policy = fleet(8, 1, 1)
    policy = msgspec.structs.replace(
        policy,
        tenants={"tenant-0": Tenant(Residency(anywhere=True))},
        rtt_ms={"zone-0": {f"region-{i}": 10.0 + 2 * i if i < 3 else 200.0 for i in range(8)}},
        objectives={"interactive": Objective(spread_ms=15)},
    )
    deployments = tuple(
        DeploymentPlan(
            f"region-{i}",
            "model-0",
            "1",
            ready_replicas=4,
            capacity_tokens_per_s=1e5,
            capacity_well_tokens_per_s=1e5,
            headroom_tokens_per_s=5e4,
            admit_overflow=(1.0,),
        )
        for i in range(8)
    )
    plan = Plan(2, 1, 1, 1, NOW_MS, tuple(RegionPlan(r, "fresh") for r in policy.regions), deployments, ("model-0",))
    table = RoutingTable(plan, policy, KEYRING)
    route = table.route(RouteKey("tenant-0", (), "model-0", "*", None, "zone-0"))
    assert len(route.reach.order) == 8
    assert len(route.holders) == 3
    return table, route


def reports(policy: Policy, second: int, draw: Random, load: float) -> tuple[ReceivedReport, ...]:
    """A report from each region, with every deployment at `load` of its slots, give or take a fifth of that."""
    out = []
    for region in policy.regions:
        served = []
        for model in policy.models:
            running = 1000.0 * load * draw.uniform(0.8, 1.2)
            served.append(
                DeploymentReport(
                    model,
                    "1",
                    Replicas(4, 4),
                    max_running=1000.0,
                    running=running,
                    waiting=0.0,
                    kv_usage=running / 1100,
                    arrived=Arrived(20.0, running * 50),
                    completed=Completed(20.0, running * 40, running * 10),
                    errors_per_s=Errors(server=0.01),
                    ttft_ms=Ttft(300, 900),
                )
            )
        out.append(ReceivedReport(region, NOW_MS + second * 1000, Report(1, "b", second, "", 1.0, tuple(served))))
    return tuple(out)


def routes(policy: Policy, count: int) -> list[RouteKey]:
    keys = [
        RouteKey(tenant, (), model, "*", None, zone)
        for model in policy.models
        for zone in policy.client_zones
        for tenant in list(policy.tenants)[:6]
    ]
    Random(2).shuffle(keys)
    return keys[:count]


def demand(policy: Policy, keys: list[RouteKey], second: int, draw: Random, load: float) -> tuple[DemandSample, ...]:
    """Demand on every route, give or take a fifth, and decided into each deployment what its reports say came."""
    regions, per_model = list(policy.regions), len(keys) // len(policy.models)
    tokens = len(regions) * 45_000 * load / per_model
    turn: dict[str, int] = dict.fromkeys(policy.models, 0)
    out = []
    for key in keys:
        mine = regions[turn[key.model] :: per_model]
        turn[key.model] += 1
        decided = tuple(DeploymentTokens(region, "1", 50_000.0 * load) for region in mine)
        out.append(RouteDemand(key, 20, tokens * draw.uniform(0.8, 1.2), (), decided))
    return (DemandSample("replica", NOW_MS + second * 1000, 1000, tuple(out)),)


def time_step(
    regions: int, models: int, route_count: int, ticks: int = 12, load: float = 0.6
) -> tuple[float, float, float, PlannerState, Plan]:
    """Median and least milliseconds of a step after two warm ones, the share of new plans, and what is left."""
    policy = fleet(regions, models)
    keys, draw = routes(policy, route_count), Random(3)
    state, memo, times, plans = PlannerState(), Memo(), [], 0
    plan: Plan | None = None
    for second in range(1, ticks + 3):
        seen = Observations(
            reports(policy, second, draw, load), demand(policy, keys, second, draw, load), policy_version=1
        )
        gc.collect()
        begin = time.process_time()
        result = step(state, seen, policy, NOW_MS + second * 1000, memo=memo)
        spent = time.process_time() - begin
        state = result.state
        if second > 2:
            times.append(spent * 1000)
            plans += result.plan is not None
        plan = result.plan or plan
    assert plan is not None
    return statistics.median(times), min(times), plans / ticks, state, plan


def main() -> None:
    gc.set_threshold(GC_ALLOCATIONS, 10, 10)  # as the planner's process has it
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    quick = parser.parse_args().quick
    table, route = eight_candidates()
    for i in range(100):
        decide_route(table, route, f"warm-{i}", NOW_MS)
    rows = [
        (
            "decide, 8 candidates, 3 with a share",
            f"{median_us(lambda i: decide_route(table, route, f's{i}', NOW_MS), 20_000):.2f} µs",
            "5 µs",
        ),
        (
            "compile a route of 8 candidates",
            f"{median_us(lambda i: CompiledRoute(route.key, table.index), 300):.0f} µs",
            "300 µs",
        ),
    ]
    sizes = [(20, 10, 200), (50, 20, 500)] if quick else [(50, 50, 500), (100, 50, 1000), (200, 50, 2000)]
    for regions, models, route_count in sizes:
        ms, least_ms, published, state, plan = time_step(regions, models, route_count)
        rows.append(
            (
                f"step, {regions} regions × {models} deployments, {route_count} routes",
                f"{ms:.0f} ms, least {least_ms:.0f} ({published:.0%} published)",
                "500 ms",
            )
        )
    tracemalloc.start()
    policy = fleet(sizes[-1][0], sizes[-1][1])
    *_, state, plan = time_step(*sizes[-1], ticks=1)
    before = tracemalloc.get_traced_memory()[0]
    full = RoutingTable(plan, policy, KEYRING)
    index = PlanIndex(policy, plan.regions, plan.deployments)
    keys = routes(policy, sizes[-1][2])
    for key in keys:
        full.route(key)
    after = tracemalloc.get_traced_memory()[0]
    rows.append((f"routing table of {len(keys)} routes", f"{(after - before) / 2**20:.0f} MiB", ""))
    rows.append(("state, plan and routing table together", f"{after / 2**20:.0f} MiB", "150 MiB"))
    tracemalloc.stop()
    rows.append(("state, encoded", f"{len(msgspec.msgpack.encode(state)) / 2**20:.1f} MiB", ""))
    one = median_us(lambda i: CompiledRoute(keys[i % len(keys)], index), 100, 3)
    rows.append((f"compile a route of {sizes[-1][0]} candidates", f"{one:.0f} µs", ""))
    width = max(len(row[0]) for row in rows)
    for name, value, bound in rows:
        print(f"{name:<{width}}  {value:>34}  {bound}")


if __name__ == "__main__":
    main()
