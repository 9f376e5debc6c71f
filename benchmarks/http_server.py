"""One server of the HTTP benchmark: the fast protocol, plain ASGI, or a framework's handler, over the same replica.

    python benchmarks/http_server.py protocol|asgi|litestar PORT

All three run the same decision: token check, validation, the whole of `decide`, affinity token, demand and metrics.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from hashlib import sha256
from typing import Any

import uvicorn
import uvloop
from litestar import Litestar, Request, Response, post
from litestar.datastructures import State

from director.core.affinity import KeyRing
from director.core.plan import DeploymentPlan, Plan, RegionPlan
from director.core.policy import ClientZone, Model, Objective, Policy, Region, Residency, Tenant
from director.core.table import RoutingTable
from director.http.app import create_app
from director.http.decision.endpoint import DecisionState, decide_http
from director.http.serve import running_http
from director.replica.replica import Replica
from director.store.tokens import TokenRecord

REGIONS = [f"region-{i}" for i in range(12)]
MODELS = ["llama-3.3-70b", "qwen3-32b"]
TOKEN = "benchmark-token"


def replica() -> Replica:
    policy = Policy(
        jurisdictions=("EU", "US"),
        regions={
            name: Region(f"https://{name}.infer.example.net", ("EU",) if i % 2 else ("US",))
            for i, name in enumerate(REGIONS)
        },
        models={name: Model("interactive") for name in MODELS},
        tenants={"acme": Tenant(Residency(allow=("EU",))), "open": Tenant(Residency(anywhere=True))},
        objectives={"interactive": Objective(spread_ms=8.0)},
        client_zones={"europe": ClientZone(networks=("203.0.113.0/24",))},
        rtt_ms={zone: {name: 10.0 + 3 * i for i, name in enumerate(REGIONS)} for zone in ("europe", "default")},
    )
    deployments = tuple(
        DeploymentPlan(
            region,
            model,
            "2026-08-14",
            ready_replicas=12,
            service_ms=300.0,
            capacity_tokens_per_s=4e5,
            capacity_well_tokens_per_s=4e5,
            headroom_tokens_per_s=1e5,
            # The nearest shed a fifth, and so take no guests; those behind them do.
            admit_home=0.8 if i < 4 else 1.0,
            admit_overflow=() if i < 4 else (1.0,),
        )
        for i, region in enumerate(REGIONS)
        for model in MODELS
    )
    plan = Plan(
        epoch=1841,
        previous=1840,
        term=1,
        policy=17,
        made_at_ms=0,
        regions=tuple(RegionPlan(region, "fresh") for region in REGIONS),
        deployments=deployments,
        models_served=tuple(MODELS),
    )
    made = Replica("benchmark", None)
    made.adopt(RoutingTable(plan, policy, KeyRing("k1", {"k1": bytes(32)})), 17)
    record = TokenRecord(
        hash=sha256(TOKEN.encode()).hexdigest(),
        scopes=("decide",),
        name="edge",
        trusted_headers=False,
        expires_at_ms=None,
    )
    made.take_tokens((record,))
    return made


@post("/select-region", status_code=200)
async def framework_handler(request: Request[Any, Any, Any], state: State) -> Response[bytes]:
    """What the endpoint would be as a handler like any other."""
    decision: DecisionState = state.decision
    headers = [(name, value) for name, value in request.scope["headers"]]
    answer = decide_http(b"POST", request.scope["raw_path"], headers, await request.body(), decision)
    told = {name.decode(): value.decode() for name, value in answer.headers() if name != b"content-type"}
    return Response(answer.body, status_code=answer.status, headers=told, media_type="application/json")


async def serve_app(app: Any, port: int) -> None:
    config = uvicorn.Config(
        app, port=port, http="httptools", ws="none", loop="none", log_config=None, access_log=False, proxy_headers=False
    )
    await uvicorn.Server(config).serve()


async def flush_demand(made: Replica) -> None:
    """What the follower does once a second."""
    while True:
        await asyncio.sleep(1)
        made.heard(made.now_ms())
        made.demand.take(made.name, made.now_ms(), 1000)


async def main(kind: str, port: int) -> None:
    made = replica()
    made.heard(made.now_ms())
    gc.collect()
    gc.freeze()
    flushing = asyncio.ensure_future(flush_demand(made))
    try:
        if kind == "protocol":
            async with running_http(made, "127.0.0.1", port):
                await asyncio.Event().wait()
        app = create_app(made)
        if kind == "litestar":
            app = Litestar([framework_handler], state=State({"decision": app.state.decision}), openapi_config=None)
        await serve_app(app, port)
    finally:
        flushing.cancel()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
