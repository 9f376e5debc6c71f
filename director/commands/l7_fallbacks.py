"""`/fallbacks` as the files that a proxy reads: where each caller may go on the day the director is silent."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

FALLBACKS_MAX = 2
"""A proxy tries the nearest permitted region and the next one: who fails twice fails for another reason."""
KEEPALIVE = 64
"""Idle connections that each worker keeps to a region: a TLS handshake across an ocean costs three round trips."""
PORTS = {"http": 80, "https": 443}


class EndpointUnusable(Exception):
    """An endpoint that no proxy configuration can hold; the text names it and says what was expected."""


class Endpoint(NamedTuple):
    """A region's way in."""

    region: str
    url: str
    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def host_header(self) -> str:
        return urlsplit(self.url).netloc


def endpoint(region: str, url: str) -> Endpoint:
    """Raises EndpointUnusable."""
    parts = urlsplit(url)
    safe = url.isascii() and url.isprintable() and not set(url) & set("\"'\\;{}$ ")
    if not safe or parts.scheme not in PORTS or not parts.hostname or parts.username or parts.query:
        raise EndpointUnusable(f"{region}: expected an endpoint such as https://eu.example.net, got {url!r}")
    return Endpoint(region, url.rstrip("/"), parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme])


def endpoints(answer: Mapping[str, Any]) -> list[Endpoint]:
    """Every region that some tenant may use, by name. Raises EndpointUnusable."""
    found: dict[str, str] = {}
    for models in answer["tenants"].values():
        for order in models.values():
            found.update((one["region"], one["endpoint"]) for one in order)
    return [endpoint(region, url) for region, url in sorted(found.items())]


def _rows(answer: Mapping[str, Any]) -> Iterable[tuple[str, list[dict[str, str]]]]:
    """Key → permitted regions. The key ends where a request's own narrowing would stand: a narrowed request
    finds no row, and is refused rather than sent where it asked not to go."""
    for tenant, models in sorted(answer["tenants"].items()):
        for model, order in sorted(models.items()):
            if order:
                yield f"{tenant}|{model}|", order[:FALLBACKS_MAX]


def _heading(answer: Mapping[str, Any], form: str) -> str:
    return (
        f"# Written by `director l7 fallbacks --format {form}`; changes made here are lost.\n"
        f"# Policy {answer['policy']}, client zone {answer['client_zone']}.\n"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def nginx(answer: Mapping[str, Any], *, upstreams: bool = True) -> str:
    """Maps for NGINX, and an `upstream` with kept connections for each region. Raises EndpointUnusable."""
    lines = [_heading(answer, "nginx")]
    rows = list(_rows(answer))
    for position in range(FALLBACKS_MAX):
        name = f"$director_fallback_{position + 1}"
        lines.append(f'map "$director_tenant|$director_model|$director_residency" {name} {{\n    default "";')
        for key, order in rows:
            if len(order) > position:
                one = endpoint(order[position]["region"], order[position]["endpoint"])
                lines.append(f"    {_quoted(key)} {_quoted(f'{one.region}={one.url}')};")
        lines.append("}\n")
    known = endpoints(answer) if upstreams else []
    lines.append("map $director_endpoint $director_upstream {\n    volatile;\n    default $director_endpoint;")
    lines += [f"    {_quoted(one.url)} {one.scheme}://region.{one.region}{urlsplit(one.url).path};" for one in known]
    lines.append("}\n")
    for one in known:
        server = f"server {one.authority} max_fails=0;"
        lines.append(f"upstream region.{one.region} {{\n    {server}\n    keepalive {KEEPALIVE};\n}}\n")
    return "\n".join(lines)


def keyvals(answer: Mapping[str, Any]) -> dict[str, str]:
    """Key → `region=endpoint` of the permitted regions, as NGINX Plus keeps them. Raises EndpointUnusable."""
    return {
        key: ",".join(f"{one.region}={one.url}" for one in (endpoint(row["region"], row["endpoint"]) for row in order))
        for key, order in _rows(answer)
    }


def haproxy_map(answer: Mapping[str, Any]) -> str:
    """A map file: key, then `region=endpoint` of the permitted regions. Raises EndpointUnusable."""
    lines = [_heading(answer, "haproxy-map").rstrip("\n")]
    lines += [f"{key} {value}" for key, value in keyvals(answer).items()]
    return "\n".join(lines) + "\n"


def haproxy(answer: Mapping[str, Any]) -> str:
    """Backends for HAProxy: one for each region, and one for each pair of regions that some tenant may use together:
    the second is entered when the first fails. Raises EndpointUnusable."""
    known = {one.region: one for one in endpoints(answer)}
    pairs: set[tuple[str, str]] = set()
    for models in answer["tenants"].values():
        for order in models.values():
            names = [one["region"] for one in order]
            pairs |= {(first, second) for first in names for second in names if first != second}
    lines = [_heading(answer, "haproxy")]
    lines += [_backend(region, known[region], None) for region in known]
    lines += [_backend(f"{first}:{second}", known[first], known[second]) for first, second in sorted(pairs)]
    return "\n".join(lines)


def _backend(name: str, first: Endpoint, second: Endpoint | None) -> str:
    lines = [
        f"backend region:{name}",
        "    option redispatch 1",
        "    retries 1",
        "    retry-on conn-failure empty-response",
        _server(first, ""),
    ]
    if second is not None:
        lines.append(_server(second, " backup"))
    return "\n".join(lines) + "\n"


def _server(one: Endpoint, more: str) -> str:
    tls = f" ssl verify required ca-file @system-ca sni str({one.host})" if one.scheme == "https" else ""
    # Marked down by the first failed connection, so that the retry enters the other; looked at again each second.
    watched = " check inter 2s fall 1 rise 1 observe layer4 error-limit 1 on-error mark-down"
    return f"    server {one.region} {one.authority}{tls}{watched}{more}"


def write_if_changed(path: Path, text: str) -> bool:
    """Put `text` there in one rename; False when it stands there already. Raises OSError."""
    try:
        if path.read_text() == text:
            return False
    except FileNotFoundError:
        pass
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return True
