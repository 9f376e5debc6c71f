"""Reads a configuration file and checks what its types cannot say: exactly one of several, ranges, URLs, repeats."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import YAMLError

from director.agent import config as types

INTERVAL_S_MIN = 0.5
INTERVAL_S_MAX = 60.0


class _Plain(SafeConstructor):
    """Dates stay strings: a version named 2026-08-14 is a name."""


_Plain.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


def load(path: Path) -> types.AgentConfig:
    """Raises `ConfigInvalid` with every problem that can be told."""
    raw = parse_yaml(path)
    try:
        config = msgspec.convert(raw, types.AgentConfig)
    except msgspec.ValidationError as error:
        raise types.ConfigInvalid([f"{path}: {explain_validation(str(error))}"]) from error
    problems = check(config)
    if problems:
        raise types.ConfigInvalid([f"{path}: {problem}" for problem in problems])
    return config


def parse_yaml(path: Path) -> Any:
    """Raises `ConfigInvalid` with the line where the text is not YAML, or a key stands twice."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Plain
    try:
        return yaml.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise types.ConfigInvalid([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise types.ConfigInvalid([f"{path}: is not UTF-8 text"]) from error
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise types.ConfigInvalid([f"{path}{line}: {problem}"]) from error


def explain_validation(message: str) -> str:
    """msgspec's message with the path in front and, for an unknown field, the name that was probably meant."""
    text, _, path = message.partition(" - at `$")
    where = path.rstrip("`").lstrip(".") or "the file"
    unknown = re.search(r"unknown field `([^`]*)`", text)
    if not unknown:
        return f"{where}: {text[0].lower()}{text[1:]}"
    near = difflib.get_close_matches(unknown[1], sorted(_field_names()), n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    return f"{where}: unknown key {unknown[1]!r}{hint}"


def _field_names() -> set[str]:
    structs = [t for t in vars(types).values() if isinstance(t, type) and issubclass(t, Struct)]
    return {name for struct in structs for name in struct.__struct_fields__}


def check(config: types.AgentConfig) -> list[str]:
    """Every problem, each with its field's path."""
    return [*_check_top(config), *_check_directors(config), *_check_deployments(config), *_check_gateway(config)]


def _check_top(config: types.AgentConfig) -> Iterator[str]:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", config.region):
        yield f"region: expected lowercase letters, digits and hyphens, got {config.region!r}"
    if not INTERVAL_S_MIN <= config.interval_s <= INTERVAL_S_MAX:
        yield f"interval_s: expected {INTERVAL_S_MIN} to {INTERVAL_S_MAX}, got {config.interval_s}"
    if not 0 < config.scrape_timeout_s <= config.interval_s:
        yield f"scrape_timeout_s: expected more than 0 and at most interval_s, got {config.scrape_timeout_s}"


def _check_directors(config: types.AgentConfig) -> Iterator[str]:
    if not config.directors:
        yield "directors: expected at least one"
    for i, director in enumerate(config.directors):
        path = f"directors[{i}]"
        yield from _check_url(f"{path}.url", director.url)
        yield from _exactly_one(path, director, ("token", "token_file", "token_env"))
        yield from _positive(f"{path}.timeout_s", director.timeout_s)
        yield from _check_tls(path, director.tls)


def _check_deployments(config: types.AgentConfig) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for i, deployment in enumerate(config.deployments):
        path = f"deployments[{i}]"
        key = (deployment.model, deployment.version)
        if key in seen:
            yield f"{path}: {deployment.model} {deployment.version} is listed twice"
        seen.add(key)
        for name in ("model", "version"):
            if not getattr(deployment, name).strip():
                yield f"{path}.{name}: expected a name, got nothing"
        for name in ("replica_max_running", "replica_capacity_tokens_per_s", "replicas_total"):
            value = getattr(deployment, name)
            if value is not None:
                yield from _positive(f"{path}.{name}", value)
        if not deployment.sources:
            yield f"{path}.sources: expected at least one"
        for j, source in enumerate(deployment.sources):
            yield from _check_source(f"{path}.sources[{j}]", source)
        yield from _check_stages(path, deployment)


def _check_source(path: str, source: types.Source) -> Iterator[str]:
    yield from _exactly_one(path, source, types.Source.KINDS)
    for j, url in enumerate(source.static or ()):
        yield from _check_url(f"{path}.static[{j}]", url)
    if source.static == ():
        yield f"{path}.static: expected at least one URL"
    for name in ("epp", "prometheus"):
        url = getattr(source, name)
        if url is not None:
            yield from _check_url(f"{path}.{name}", url)
    if source.dns is not None and not 0 < source.dns.port < 65536:
        yield f"{path}.dns.port: expected 1 to 65535, got {source.dns.port}"
    if source.pool is not None and source.epp is None:
        yield f"{path}.pool: only an epp source has pools"
    if (source.query is not None or source.selector) and source.prometheus is None:
        yield f"{path}: query and selector belong to a prometheus source"
    if source.query is not None and source.selector:
        yield f"{path}: expected query or selector, not both: a query has its own matchers"
    if source.metrics_path is not None and not source.metrics_path.startswith("/"):
        yield f"{path}.metrics_path: expected a path that begins with /, got {source.metrics_path!r}"
    yield from _check_tls(path, source.tls)


def _check_stages(path: str, deployment: types.DeploymentConfig) -> Iterator[str]:
    stages = {source.stage for source in deployment.sources if source.stage is not None}
    unstaged = [j for j, source in enumerate(deployment.sources) if source.stage is None and source.epp is None]
    if stages and unstaged:
        yield f"{path}.sources[{unstaged[0]}]: has no stage, others have: all replicas or none"
    if len(stages) == 1:
        other = "decode" if "prefill" in stages else "prefill"
        yield f"{path}.sources: one has stage {next(iter(stages))!r}, none has stage {other!r}: both or neither"


def _check_gateway(config: types.AgentConfig) -> Iterator[str]:
    if config.gateway is not None:
        yield from _check_url("gateway.url", config.gateway.url)
        yield from _positive("gateway.interval_s", config.gateway.interval_s)
        yield from _positive("gateway.timeout_s", config.gateway.timeout_s)
        yield from _positive("gateway.failures_to_down", config.gateway.failures_to_down)
        yield from _check_tls("gateway", config.gateway.tls)
    if config.metrics is not None and not 0 <= config.metrics.port < 65536:
        yield f"metrics.port: expected 0 to 65535, got {config.metrics.port}"


def _exactly_one(path: str, struct: Struct, names: Iterable[str]) -> Iterator[str]:
    names = tuple(names)
    given = [name for name in names if getattr(struct, name) is not None]
    if len(given) != 1:
        yield f"{path}: expected exactly one of {', '.join(names)}; got {', '.join(given) or 'none'}"


def _positive(path: str, value: float) -> Iterator[str]:
    if not (math.isfinite(value) and value > 0):
        yield f"{path}: expected a number above 0, got {value}"


def _check_url(path: str, url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        yield f"{path}: expected an http:// or https:// URL, got {url!r}"


def _check_tls(path: str, tls: types.Tls | None) -> Iterator[str]:
    for name in ("ca_file", "cert_file", "key_file"):
        value = getattr(tls, name, None)
        if value is not None and not Path(value).is_file():
            yield f"{path}.tls.{name}: no such file: {value}"
    if tls is not None and (tls.key_file is not None) and tls.cert_file is None:
        yield f"{path}.tls.key_file: has no cert_file beside it"
