"""Nearness: milliseconds, lower is better. Nothing in it follows load, so nothing in it can ring."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from director.core.plan import DeploymentPlan
from director.core.policy import Model, Objective, Policy

RttSource = Literal["matrix", "distance", "worst"]


class Nearness(Struct, frozen=True):
    """The terms, each in milliseconds, and their sum."""

    rtt_ms: float
    rtt_source: RttSource
    service_ms: float
    adapter_load_ms: float
    price_ms: float
    near_ms: float


def nearness(
    policy: Policy,
    model: Model,
    objective: Objective,
    client_zone: str,
    adapter: str | None,
    deployment: DeploymentPlan,
    rtt: tuple[float, RttSource],
) -> Nearness:
    """rtt + service + adapter load + (price + egress) · ms_per_price, each term as the design defines it."""
    rtt_ms, source = rtt
    to_load = adapter is not None and adapter not in deployment.adapters_loaded
    adapter_load_ms = model.adapter_load_ms if to_load else 0.0
    egress = policy.egress_price_per_mtok.get(client_zone, {}).get(deployment.region, 0.0)
    price_ms = (policy.regions[deployment.region].price_per_mtok + egress) * objective.ms_per_price
    price_ms = round(price_ms, 3)
    near_ms = round(rtt_ms + deployment.service_ms + adapter_load_ms + price_ms, 3)
    return Nearness(rtt_ms, source, deployment.service_ms, adapter_load_ms, price_ms, near_ms)
