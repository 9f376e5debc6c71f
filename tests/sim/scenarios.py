"""Small scenarios for the tests: two regions, a minute or two, a few requests a second."""

from __future__ import annotations

import textwrap

from director.sim import loading
from director.sim.scenario import Scenario

SMALL = textwrap.dedent(
    """\
    name: small
    about: two regions, one demand each
    duration_s: 120
    policy:
      jurisdictions: [EU, US]
      regions:
        north: {jurisdictions: [EU], endpoint: "https://north.infer.example.net", price_per_mtok: 2.0}
        south: {jurisdictions: [US], endpoint: "https://south.infer.example.net", price_per_mtok: 1.0}
      models: {chat: {objective: interactive}}
      tenants:
        open: {residency: anywhere}
        acme: {residency: {allow: [EU]}}
      objectives: {interactive: {spread_ms: 8}}
      client_zones: {north: {}, south: {}}
      rtt_ms:
        north: {north: 5, south: 30}
        south: {north: 30, south: 5}
    engines:
      gpu: {step_ms: {empty: 30, full: 30}, max_running: 64, prefill_tokens_per_s: 1000000}
    fleet:
      north: {chat: {engine: gpu, replicas: 2}}
      south: {chat: {engine: gpu, replicas: 2}}
    demand:
      north: {zone: north, tenant: open, of_capacity: north, steps: [[0, 0.5]]}
      south: {zone: south, tenant: open, of_capacity: south, steps: [[0, 0.5]]}
    """
)


def small(**changes: object) -> Scenario:
    """The small scenario with values set at dotted paths; `__` stands for a dot."""
    sets = {path.replace("__", "."): value for path, value in changes.items()}
    raw = loading.parse(SMALL, "small.yaml")
    for path, value in sets.items():
        loading.set_value(raw, path.split("."), value, path)
    return loading.scenario_of(raw, "small.yaml")
