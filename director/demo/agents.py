"""A `director agent` for each region, with a configuration and a report token of its own."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from director.demo.fleet import FleetPlaces, RegionPlace
from director.demo.layout import CAPACITIES, REGIONS, SERVED_NAMES, SPEEDS, Pool, RegionLayout

INTERVAL_S = 2.0


def write_configurations(folder: Path, places: FleetPlaces, director_url: str, tokens: dict[str, str]) -> list[Path]:
    """One file a region, `tokens` by region beside them. Returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    plans = {plan.region: plan for plan in REGIONS}
    written = []
    for place in places.regions:
        token_file = folder / f"{place.region}.token"
        write_secret(token_file, tokens[place.region])
        path = folder / f"{place.region}.yaml"
        configuration = _configuration(plans[place.region], place, director_url, token_file)
        path.write_text(_yaml(configuration), encoding="utf-8")
        written.append(path)
    return written


def write_secret(path: Path, text: str) -> None:
    """Readable by its owner only, from its first byte on."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def _configuration(plan: RegionLayout, place: RegionPlace, director_url: str, token_file: Path) -> dict[str, Any]:
    gateway = f"http://127.0.0.1:{place.gateway_port}"
    ports = {(pool.model, pool.version): pool.ports for pool in place.pools}
    return {
        "region": place.region,
        "interval_s": INTERVAL_S,
        "scrape_timeout_s": 1.0,
        "directors": [{"url": director_url, "token_file": str(token_file)}],
        "gateway": {"url": f"{gateway}/health", "interval_s": INTERVAL_S, "timeout_s": 1.0, "failures_to_down": 2},
        "deployments": [_deployment(plan, pool, ports[(pool.model, pool.version)], gateway) for pool in plan.pools],
    }


def _deployment(plan: RegionLayout, pool: Pool, ports: tuple[int, ...], gateway: str) -> dict[str, Any]:
    sources: list[dict[str, Any]] = [{"static": [f"http://127.0.0.1:{port}" for port in ports]}]
    if plan.picker is not None:
        sources.append({"epp": f"{gateway}/metrics", "pool": pool.name})
    deployment: dict[str, Any] = {
        "model": pool.model,
        "version": pool.version,
        "engine": "sglang" if pool.dialect == "sglang" else "vllm",
        "served_as": [SERVED_NAMES[pool.model], pool.name],
        "replica_max_running": SPEEDS[pool.model].max_running,
        "replica_capacity_tokens_per_s": CAPACITIES[pool.model],
        "sources": sources,
    }
    if pool.adapters_loadable:
        deployment["adapters"] = {"loadable": list(pool.adapters_loadable)}
    return deployment


def _yaml(data: dict[str, Any]) -> str:
    yaml = YAML()
    yaml.width = 200
    text = io.StringIO()
    yaml.dump(data, text)
    return text.getvalue()
