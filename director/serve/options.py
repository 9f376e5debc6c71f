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
    metrics_host: str = "127.0.0.1"
    dns_metrics_port: int | None = None
    """None: no metrics of that process. The API's are on its own port."""
    planner_metrics_port: int | None = None
    decision_log_ratio: float = 0.0

    def arguments(self, role: Role) -> list[str]:
        """The command line that runs one role, after `python -m director`. The database's URL goes by environment."""
        common = ["serve", "--role", role, "--data", str(self.data)]
        if role == "api":
            where = ["--http-host", self.http_host, "--http-port", str(self.http_port)]
            return [*common, *where, "--decision-log-ratio", str(self.decision_log_ratio)]
        if role == "dns":
            where = ["--dns-host", self.dns_host, "--dns-port", str(self.dns_port)]
            return [*common, *where, *self._metrics("--dns-metrics-port", self.dns_metrics_port)]
        return [*common, *self._metrics("--planner-metrics-port", self.planner_metrics_port)]

    def _metrics(self, option: str, port: int | None) -> list[str]:
        return ["--metrics-host", self.metrics_host, option, str(port)] if port is not None else []

    @property
    def http_url(self) -> str:
        return f"http://{_bracketed(self.http_host)}:{self.http_port}"

    @property
    def dns_address(self) -> str:
        return f"{_bracketed(self.dns_host)}:{self.dns_port}"


def _bracketed(host: str) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (an address to listen on is none to call)
    return f"[{host}]" if ":" in host else host
