"""What `director serve` was told: one value for the supervisor, its roles, and the command lines between them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

Role = Literal["api", "dns", "planner"]
ROLES: tuple[Role, ...] = ("planner", "api", "dns")


class Options(NamedTuple):
    """`policy` is imported at start; `database_url` is None for the embedded Postgres."""

    http_host: str
    http_port: int
    dns_host: str
    dns_port: int
    data: Path
    policy: Path | None = None
    database_url: str | None = None

    def arguments(self, role: Role) -> list[str]:
        """The command line that runs one role, after `python -m director`. The database's URL goes by environment."""
        common = ["serve", "--role", role, "--data", str(self.data)]
        if role == "api":
            return [*common, "--http-host", self.http_host, "--http-port", str(self.http_port)]
        if role == "dns":
            return [*common, "--dns-host", self.dns_host, "--dns-port", str(self.dns_port)]
        return common

    @property
    def http_url(self) -> str:
        return f"http://{_bracketed(self.http_host)}:{self.http_port}"

    @property
    def dns_address(self) -> str:
        return f"{_bracketed(self.dns_host)}:{self.dns_port}"


def _bracketed(host: str) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (an address to listen on is none to call)
    return f"[{host}]" if ":" in host else host
