"""The command `director serve`."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import sys
from pathlib import Path

import click

from director.serve.options import ROLES, Options, Role


@click.command("serve")
@click.option(
    "--role", type=click.Choice([*ROLES, "all"]), default="all", show_default=True, help="One role, or the tree."
)
@click.option("--http-host", default="127.0.0.1", show_default=True, help="Where the API listens.")
@click.option("--http-port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option("--dns-host", default="127.0.0.1", show_default=True, help="Where DNS listens, UDP and TCP.")
@click.option("--dns-port", type=click.IntRange(1, 65535), default=8053, show_default=True)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    help="Where dns and planner answer scrapes; without a token. The API's metrics are on its own port.",
)
@click.option("--dns-metrics-port", type=click.IntRange(1, 65535), help="For `GET /metrics` of dns; without it, none.")
@click.option("--planner-metrics-port", type=click.IntRange(1, 65535), help="For `GET /metrics` of the planner.")
@click.option(
    "--decision-log-ratio",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    envvar="DIRECTOR_DECISION_LOG_RATIO",
    help="The part of all decisions that is logged, one line each.",
)
@click.option(
    "--dns-workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that share the DNS port.",
)
@click.option(
    "--dns-responses-per-s",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="UDP answers a second to one client network (/24, /56) without a cookie, from all workers; 0 lifts the limit.",
)
@click.option(
    "--dns-exempt",
    multiple=True,
    callback=lambda _context, _option, networks: _networks(networks),
    help="A network without that limit, such as a load balancer's; may be given several times.",
)
@click.option(
    "--policy",
    type=click.Path(exists=True, path_type=Path),
    help="A policy folder, taken in when it is new or has changed since it was last taken in.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("director-data"),
    show_default=True,
    envvar="DIRECTOR_DATA",
    help="The embedded Postgres, and the snapshots that replicas start from.",
)
def serve_command(
    role: str,
    http_host: str,
    http_port: int,
    dns_host: str,
    dns_port: int,
    metrics_host: str,
    dns_metrics_port: int | None,
    planner_metrics_port: int | None,
    decision_log_ratio: float,
    dns_workers: int,
    dns_responses_per_s: int,
    dns_exempt: tuple[str, ...],
    policy: Path | None,
    data: Path,
) -> None:
    """Run the director: api, dns and planner as processes of one tree.

    Uses the PostgreSQL (14 or later) that DIRECTOR_DATABASE_URL names; without it, an embedded one in --data.
    """
    options = Options(
        http_host=http_host,
        http_port=http_port,
        dns_host=dns_host,
        dns_port=dns_port,
        data=data.absolute(),
        policy=policy.absolute() if policy is not None else None,
        database_url=os.environ.get("DIRECTOR_DATABASE_URL") or None,
        metrics_host=metrics_host,
        dns_metrics_port=dns_metrics_port,
        planner_metrics_port=planner_metrics_port,
        decision_log_ratio=decision_log_ratio,
        dns_workers=dns_workers,
        dns_responses_per_s=dns_responses_per_s,
        dns_exempt=dns_exempt,
    )
    sys.exit(_run(role, options))


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(str(ipaddress.ip_network(text)) for text in texts)
    except ValueError as error:
        raise click.BadParameter(f"expected a network such as 203.0.113.0/24: {error}") from None


def _run(role: str, options: Options) -> int:
    _leave_rich_out()
    single: Role | None = next((known for known in ROLES if known == role), None)
    if single is not None:
        if options.policy is not None:
            raise click.UsageError("--policy goes with the whole tree; beside single roles use `director policy apply`")
        from director.serve.role import run_role

        return run_role(single, options)
    from director.serve import logs
    from director.serve.supervisor import CannotStart, supervise

    logs.configure("supervisor")
    try:
        return asyncio.run(supervise(options))
    except CannotStart as error:
        click.echo(f"director serve: {error}", err=True)
        return 2


def _leave_rich_out() -> None:
    """structlog imports rich where it finds it, for tracebacks in colour: 4.5 MiB in each process that shows none."""
    if "rich" not in sys.modules:
        sys.modules["rich"] = None  # type: ignore[assignment]
