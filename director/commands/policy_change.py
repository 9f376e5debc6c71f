"""`director policy diff|apply|rollback|history`: what a running director says of a policy, and does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from director.commands import client
from director.commands.output import json_option, table

ROUTES_SHOWN = 20

reason_option = click.option("--reason", help="Why, for the version and its event.")
force_option = click.option("--force", is_flag=True, help="Past the brake; needs a reason.")


@click.command("diff")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@json_option
def diff_command(path: Path, as_json: bool) -> None:
    """Say what the policy at PATH would move, and change nothing."""
    _show(client.put("/policy", _files(path)), as_json)


@click.command("apply")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@reason_option
@force_option
@json_option
def apply_command(path: Path, reason: str | None, force: bool, as_json: bool) -> None:
    """Make the policy at PATH the newest version. Exit 1 when the brake refuses it."""
    query: dict[str, str] = {"apply": "true"}
    if reason is not None:
        query["reason"] = reason
    if force:
        query["force"] = "true"
    _show(client.put("/policy", _files(path), **query), as_json)


@click.command("rollback")
@click.argument("version", type=click.IntRange(min=1), required=False)
@reason_option
@force_option
@json_option
def rollback_command(version: int | None, reason: str | None, force: bool, as_json: bool) -> None:
    """Make VERSION the newest again; without it, the one before the running one."""
    body = {"version": version, "reason": reason, "force": force or None}
    told = {name: value for name, value in body.items() if value is not None}
    _show(client.post("/policy/rollback", told), as_json)


@click.command("history")
@json_option
def history_command(as_json: bool) -> None:
    """Every version: when, by whom and why."""
    answer = client.get("/policy")
    if as_json:
        click.echo(msgspec.json.encode(answer))
        return
    rows = [(f"{one['version']}", one["at"], one["who"], one["why"]) for one in answer["history"]]
    table(("version", "at", "who", "why"), rows, title=f"in use: version {answer['in_use']}")


def _files(path: Path) -> dict[str, Any]:
    """The folder as it would be served; a policy that cannot be is refused here, with places in these files."""
    from director.policy import PolicyInvalid, load

    try:
        return {"files": load(path).files}
    except PolicyInvalid as error:
        for problem in error.problems:
            click.echo(str(problem), err=True)
        raise click.exceptions.Exit(1) from None


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(answer))
        return
    for warning in answer.get("warnings", ()):
        click.echo(f"warning: {_place(warning)}{warning['message']}", err=True)
    moves = answer.get("moves")
    if moves is None:
        click.echo("no plan to compare under: what would move is not known")
    else:
        _print_moves(moves)
    click.echo(f"applied as version {answer['version']}" if answer["applied"] else "nothing was changed")


def _place(warning: dict[str, Any]) -> str:
    return f"{warning['file']}:{warning['line']}: {warning['path']}: " if warning.get("line") else ""


def _print_moves(moves: dict[str, Any]) -> None:
    for tenant, regions in moves["residency_widened"].items():
        click.secho(f"RESIDENCY WIDENS: {tenant} may also enter {', '.join(regions)}", bold=True)
    for tenant, regions in moves["residency_narrowed"].items():
        click.echo(f"residency narrows: {tenant} no longer enters {', '.join(regions)}")
    for what in ("tenants", "models", "regions"):
        if moves[f"{what}_removed"]:
            click.echo(f"{what} that go: {', '.join(moves[f'{what}_removed'])}")
    weighed = moves["weighed_by"]
    click.echo(f"{moves['moved_share']:.1%} of all traffic moves ({weighed}); {moves['routes_changed']} routes change")
    rows = [_route_row(route) for route in moves["routes"][:ROUTES_SHOWN]]
    if rows:
        table(("tenant", "model", "version", "from", "moves", "before", "after"), rows, right=("moves",))


def _route_row(route: dict[str, Any]) -> tuple[str, ...]:
    return (
        route["tenant"],
        route["model"],
        route["version"],
        route["client_zone"],
        f"{route['moved']:.0%}",
        _shares(route["before"], route["refused_before"]),
        _shares(route["after"], route["refused_after"]),
    )


def _shares(shares: dict[str, float], refused: float) -> str:
    parts = [f"{region} {share:.0%}" for region, share in sorted(shares.items(), key=lambda item: -item[1])]
    if refused >= 0.005:
        parts.append(f"refused {refused:.0%}")
    return ", ".join(parts) or "–"
