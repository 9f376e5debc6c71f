"""What one process of the tree runs: a role, until it is told to stop.

Each role imports only what it needs: the imports stand inside the functions, because an api process that also loaded
the DNS responder (or the other way round) would carry it for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import signal
import sys
from collections.abc import Awaitable, Callable

import structlog
import uvloop

from director.serve import gate, logs
from director.serve.child import UNUSABLE, die_with_parent
from director.serve.options import Options, Role

SWITCH_S = 0.0005
"""A table is compiled in a thread beside the serving loop: at Python's default of 5 ms it would hold up each answer."""

MODULES: dict[Role, tuple[str, ...]] = {
    "planner": ("director.planner.run", "director.store.database"),
    "api": ("director.replica.run", "director.http.serve"),
    "dns": ("director.replica.run", "director.dns.server"),
}

log = structlog.get_logger()


def run_role(role: Role, options: Options) -> int:
    """Run until SIGINT or SIGTERM. The exit code."""
    die_with_parent()
    logs.configure(role)
    if options.database_url is None:
        print(f"director serve --role {role}: set DIRECTOR_DATABASE_URL (or serve without --role)", file=sys.stderr)  # noqa: T201
        return UNUSABLE
    for module in MODULES[role]:
        importlib.import_module(module)
    gate.wait()
    sys.setswitchinterval(SWITCH_S)
    try:
        return uvloop.run(_until_stopped(role, options))
    except OSError as error:
        print(f"director serve --role {role}: {error}", file=sys.stderr)  # noqa: T201
        return UNUSABLE
    except Exception:
        log.exception("role_failed")
        return 1


async def _until_stopped(role: Role, options: Options) -> int:
    runners: dict[Role, Callable[[Options], Awaitable[None]]] = {"planner": _planner, "api": _api, "dns": _dns}
    loop = asyncio.get_running_loop()
    work = asyncio.ensure_future(runners[role](options))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work
    return 0


async def _planner(options: Options) -> None:
    from director.planner.run import run_planner
    from director.replica.replica import new_name
    from director.store.database import Database

    assert options.database_url is not None
    database = Database(options.database_url, pool_size=2)
    try:
        await run_planner(database, new_name("planner"), _metrics_at(options, options.planner_metrics_port))
    finally:
        await database.close()


async def _api(options: Options) -> None:
    from director.http.serve import serve_http
    from director.replica.run import running_replica

    async with running_replica("api", _url(options), options.data, probes=True) as replica:
        _settle()
        await serve_http(replica, options.http_host, options.http_port, decision_log_ratio=options.decision_log_ratio)


async def _dns(options: Options) -> None:
    from director.dns.exposition import serve_metrics
    from director.dns.limits import Limits
    from director.dns.server import serve_dns
    from director.replica.run import running_replica

    async with running_replica("dns", _url(options), options.data) as replica:
        responder = await serve_dns(
            replica,
            options.dns_host,
            options.dns_port,
            nsid=replica.name.encode(),
            limits=Limits(responses_per_s=options.dns_responses_per_s, exempt=options.dns_exempt),
            workers=options.dns_workers,
        )
        at = _metrics_at(options, options.dns_metrics_port)
        metrics = await serve_metrics(responder, *at) if at is not None else None
        _settle()
        log.info("dns_listening", host=options.dns_host, port=options.dns_port)
        try:
            await asyncio.Event().wait()
        finally:
            if metrics is not None:
                metrics.close()
            await responder.stop()


def _metrics_at(options: Options, port: int | None) -> tuple[str, int] | None:
    return (options.metrics_host, port) if port is not None else None


def _url(options: Options) -> str:
    assert options.database_url is not None
    return options.database_url


def _settle() -> None:
    """Modules and the first table live as long as the process: keep the collector from walking them again and again."""
    gc.collect()
    gc.freeze()
