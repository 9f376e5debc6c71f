"""A policy small enough to read, and how it is broken on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from director.policy import LoadedPolicy, PolicyInvalid, Problem, load_files

EXAMPLE = Path(__file__).parents[2] / "policies"

SAMPLE = """\
jurisdictions: [EU, IE, US]
regions:
  eu-west-1:
    jurisdictions: [EU, IE]
    location: {lat: 53.35, lon: -6.26}
    endpoint: https://eu.example.net
    addresses: {A: [192.0.2.10], AAAA: ["2001:db8::10"]}
    price_per_mtok: 0.42
    capacity_max: {chat-70b: 400000}
    probe: {url: https://eu.example.net/health}
  us-east-1:
    jurisdictions: [US]
    location: {lat: 38.95, lon: -77.45}
    endpoint: https://us.example.net
    addresses: {A: [192.0.2.30]}
    price_per_mtok: 0.35
models:
  chat-70b: {objective: interactive}
tenants:
  acme: {residency: {allow: [EU], forbid: [US]}, deny_regions: []}
  open: {residency: anywhere}
default_tenant: null
objectives:
  interactive: {spread_ms: 8, ms_per_price: 20, max_rtt_ms: 250}
client_zones:
  europe: {location: {lat: 50.1, lon: 8.7}, networks: [203.0.113.0/24, "2001:db8:1::/48"]}
geoip: null
rtt_ms:
  europe: {eu-west-1: 12, us-east-1: 88}
egress_price_per_mtok:
  europe: {eu-west-1: 0.01, us-east-1: 0.02}
planner: {fresh_for_s: 10, lost_after_s: 30}
breaker: {open_s: 10}
dns:
  infer.example.com:
    nameservers: {ns1.infer.example.com: [192.0.2.53]}
    names:
      chat.eu: {tenant: acme, model: chat-70b, when_none: fallback, fallback: {A: [192.0.2.10]}}
      chat: {tenant: open, model: chat-70b}
"""


def changed(old: str, new: str) -> str:
    """The sample with one place changed. `old` must stand there exactly once."""
    assert SAMPLE.count(old) == 1, f"{SAMPLE.count(old)} times in the sample: {old}"
    return SAMPLE.replace(old, new)


def line_of(text: str, marker: str) -> int:
    """The line (from 1) where `marker` stands first."""
    return text[: text.index(marker)].count("\n") + 1


def refused(text: str) -> tuple[Problem, ...]:
    """The problems of a policy that must not load."""
    with pytest.raises(PolicyInvalid) as refusal:
        load_files({"p.yaml": text})
    assert refusal.value.problems
    return refusal.value.problems


def accepted(text: str) -> LoadedPolicy:
    return load_files({"p.yaml": text})
