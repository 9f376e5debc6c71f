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
    dns_workers: int = 1
    """Processes that share the DNS port; the kernel spreads clients over them."""
    dns_responses_per_s: int = 1000
    """Per client network, UDP without a cookie, from all workers together; 0 lifts the limit."""
    dns_exempt: tuple[str, ...] = ()
    """Networks without that limit."""

    def arguments(self, role: Role, worker: int = 0) -> list[str]:
        """The command line that runs one role, after `python -m director`. The database's URL goes by environment.

        `worker`: which of the processes that share the DNS port; its metrics are on the port that many further on.
        """
        common = ["serve", "--role", role, "--data", str(self.data)]
        if role == "api":
            where = ["--http-host", self.http_host, "--http-port", str(self.http_port)]
            return [*common, *where, "--decision-log-ratio", str(self.decision_log_ratio)]
        if role == "dns":
            where = ["--dns-host", self.dns_host, "--dns-port", str(self.dns_port)]
            metrics_port = self.dns_metrics_port + worker if self.dns_metrics_port is not None else None
            limits = ["--dns-workers", str(self.dns_workers), "--dns-responses-per-s", str(self.dns_responses_per_s)]
            exempt = [word for network in self.dns_exempt for word in ("--dns-exempt", network)]
            return [*common, *where, *limits, *exempt, *self._metrics("--dns-metrics-port", metrics_port)]
        return [*common, *self._metrics("--planner-metrics-port", self.planner_metrics_port)]

    def _metrics(self, option: str, port: int | None) -> list[str]:
        return ["--metrics-host", self.metrics_host, option, str(port)] if port is not None else []

    def workers(self, role: Role) -> int:
        """How many processes a role has in a tree."""
        return self.dns_workers if role == "dns" else 1

    @property
    def http_url(self) -> str:
        return f"http://{_bracketed(self.http_host)}:{self.http_port}"

    @property
    def dns_address(self) -> str:
        return f"{_bracketed(self.dns_host)}:{self.dns_port}"


def _bracketed(host: str) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (an address to listen on is none to call)
    return f"[{host}]" if ":" in host else host
