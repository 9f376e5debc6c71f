"""A small policy, and reports for it."""

from __future__ import annotations

from director.core.policy import Model, Objective, Policy, Region, Residency, Tenant
from director.core.report import DeploymentReport, Replicas, Report

POLICY = Policy(
    jurisdictions=("EU", "US"),
    regions={
        "eu-west-1": Region(endpoint="https://eu.example.net", jurisdictions=("EU",)),
        "us-east-1": Region(endpoint="https://us.example.net", jurisdictions=("US",)),
    },
    models={"llama": Model(objective="interactive")},
    tenants={"open": Tenant(residency=Residency(anywhere=True))},
    objectives={"interactive": Objective(spread_ms=10.0)},
    rtt_ms={"default": {"eu-west-1": 10.0, "us-east-1": 90.0}},
)


def report(sequence: int, *, ready: int = 4, boot_id: str = "boot-1") -> Report:
    return Report(
        schema=1,
        boot_id=boot_id,
        sequence=sequence,
        observed_at="2026-11-30T20:51:07Z",
        interval_s=5.0,
        deployments=(
            DeploymentReport(
                model="llama",
                version="1",
                replicas=Replicas(ready=ready, total=4),
                max_running=100.0,
                running=0.0,
                capacity_tokens_per_s=1_000.0,
                capacity_source="configured",
            ),
        ),
    )
