"""Where a deployment's replicas are: a source of the configuration → metrics URLs, looked up again as it changes.

A source that cannot be looked up keeps its last answer: a resolver that is down takes no replica away.
"""

from __future__ import annotations

import asyncio
import glob
import json
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from director.agent.config import DnsSource, Source
from director.agent.config_file import parse_yaml

FILE_REFRESH_S = 5.0
SRV_REFRESH_S = 10.0


class DiscoveryFailed(Exception):
    """The lookup failed; the last answer stands. The text names the source and what went wrong."""


class Discovery(Protocol):
    refresh_s: float | None
    """None: asked once."""

    async def find(self) -> tuple[str, ...]:
        """Metrics URLs. Raises `DiscoveryFailed`."""
        ...


def discovery_of(source: Source, default_path: str) -> Discovery:
    """`default_path` is the engine's metrics path, for targets that name none."""
    path = source.metrics_path or default_path
    scheme = "https" if source.tls is not None else "http"
    if source.static is not None:
        return Static(tuple(with_path(url, path) for url in source.static))
    if source.epp is not None:
        return Static((with_path(source.epp, source.metrics_path or "/metrics"),))
    if source.dns is not None:
        return DnsAddresses(source.dns, scheme, path)
    if source.dns_srv is not None:
        return DnsServices(source.dns_srv, scheme, path)
    if source.file_sd is not None:
        return Files(source.file_sd, scheme, path)
    return Static(())


def with_path(url: str, path: str) -> str:
    parts = urlsplit(url)
    return url if parts.path not in ("", "/") else urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


class Static:
    refresh_s: float | None = None

    def __init__(self, urls: tuple[str, ...]) -> None:
        self._urls = urls

    async def find(self) -> tuple[str, ...]:
        return self._urls


class DnsAddresses:
    """Every address of one name."""

    def __init__(self, source: DnsSource, scheme: str, path: str) -> None:
        self.refresh_s: float | None = source.refresh_s
        self._source, self._scheme, self._path = source, scheme, path

    async def find(self) -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self._source.name, self._source.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # a name that is no name is a UnicodeError
            raise DiscoveryFailed(f"dns {self._source.name}: {error}") from error
        hosts = sorted({str(address[4][0]) for address in found})
        return tuple(_url(self._scheme, host, self._source.port, self._path) for host in hosts)


class DnsServices:
    """SRV records: hosts and ports. Priorities and weights are for callers, who do not ask this agent."""

    refresh_s: float | None = SRV_REFRESH_S

    def __init__(self, name: str, scheme: str, path: str) -> None:
        self._name, self._scheme, self._path = name, scheme, path

    async def find(self) -> tuple[str, ...]:
        import dns.asyncresolver
        import dns.exception

        try:
            # With the search list, as a name within a Kubernetes namespace needs it; getaddrinfo does the same.
            answer = await dns.asyncresolver.resolve(self._name, "SRV", lifetime=5.0, search=True)
        except (dns.exception.DNSException, OSError) as error:
            raise DiscoveryFailed(f"dns_srv {self._name}: {str(error) or type(error).__name__}") from error
        # A target of "." says that the service is decidedly not offered (RFC 2782).
        records = sorted({(str(record.target).rstrip("."), int(record.port)) for record in answer})
        return tuple(_url(self._scheme, host, port, self._path) for host, port in records if host)


class Files:
    """Prometheus' file_sd format: a list of `{"targets": ["host:port"], "labels": {…}}`, JSON or YAML.

    `__scheme__` and `__metrics_path__` labels are honoured as Prometheus honours them.
    """

    refresh_s: float | None = FILE_REFRESH_S

    def __init__(self, pattern: str, scheme: str, path: str) -> None:
        self._pattern, self._scheme, self._path = pattern, scheme, path
        self._read: dict[str, tuple[tuple[int, int], tuple[str, ...]]] = {}

    async def find(self) -> tuple[str, ...]:
        return await asyncio.to_thread(self.find_now)

    def find_now(self) -> tuple[str, ...]:
        names = sorted(glob.glob(self._pattern))
        if not names:
            raise DiscoveryFailed(f"file_sd {self._pattern}: no such file")
        for name in names:
            self._read[name] = self._file(name)
        self._read = {name: self._read[name] for name in names}
        return tuple(dict.fromkeys(url for _, urls in self._read.values() for url in urls))

    def _file(self, name: str) -> tuple[tuple[int, int], tuple[str, ...]]:
        try:
            stat = Path(name).stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            if name in self._read and self._read[name][0] == stamp:
                return self._read[name]
            text = Path(name).read_text(encoding="utf-8")
            groups = json.loads(text) if name.endswith(".json") else parse_yaml(Path(name))
            return stamp, tuple(self._urls(groups))
        except Exception as error:  # whatever a half-written file holds, its last good content stands
            raise DiscoveryFailed(f"file_sd {name}: {error}") from error

    def _urls(self, groups: Any) -> Iterable[str]:
        for group in groups or ():
            labels = group.get("labels") or {}
            scheme, path = labels.get("__scheme__", self._scheme), labels.get("__metrics_path__", self._path)
            for target in group["targets"]:
                url = f"{scheme}://{target}{path}"
                if not urlsplit(url).hostname or (urlsplit(url).port or 1) < 1:
                    raise ValueError(f"expected host:port, got {target!r}")
                yield url


def _url(scheme: str, host: str, port: int, path: str) -> str:
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}"
