"""`director drain|undrain|down|up|cap`: what an operator sets on a region."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from director.commands import client
from director.commands.output import json_option


def _regions(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """For a shell's completion: the regions of the director that DIRECTOR_URL names; none where nobody answers."""
    return [name for name in client.region_names() if name.startswith(incomplete)]


region_argument = click.argument("region", shell_complete=_regions)
reason_option = click.option("--reason", required=True, help="Why, for the event that others will read.")

ending_reason_option = click.option("--reason", help="Why, for the event that others will read.")


@click.command("drain")
@region_argument
@click.option("--deadline-s", type=click.FloatRange(min=0, min_open=True), help="Until then sessions may come back.")
@reason_option
@json_option
def drain_command(region: str, deadline_s: float | None, reason: str, as_json: bool) -> None:
    """Take no new sessions into REGION. Those that hold a token may come back until the deadline."""
    body: dict[str, Any] = {"reason": reason}
    if deadline_s is not None:
        body["deadline_s"] = deadline_s
    until = "with no deadline" if deadline_s is None else f"for {deadline_s:g} s"
    _say(_set(region, "drain", body), as_json, f"{region} drains, {until}")


@click.command("undrain")
@region_argument
@ending_reason_option
@json_option
def undrain_command(region: str, reason: str | None, as_json: bool) -> None:
    """End a drain of REGION. Its share comes back at the pace of `recovery_per_s`."""
    _say(_set(region, "undrain", _why(reason)), as_json, f"{region} drains no more", f"{region} did not drain")


@click.command("down")
@region_argument
@reason_option
@json_option
def down_command(region: str, reason: str, as_json: bool) -> None:
    """Take REGION out at once: nothing enters, sessions included."""
    _say(_set(region, "down", {"reason": reason}), as_json, f"{region} is down")


@click.command("up")
@region_argument
@ending_reason_option
@json_option
def up_command(region: str, reason: str | None, as_json: bool) -> None:
    """End a `down` of REGION."""
    _say(_set(region, "up", _why(reason)), as_json, f"{region} is up", f"{region} was not down")


@click.command("cap")
@region_argument
@click.argument("share", type=click.FloatRange(0, 1), required=False)
@click.option("--none", "uncap", is_flag=True, help="End the cap.")
@reason_option
@json_option
def cap_command(region: str, share: float | None, uncap: bool, reason: str, as_json: bool) -> None:
    """Bound REGION to SHARE (0 to 1) of every route; --none ends that."""
    if uncap == (share is not None):
        raise click.UsageError("give either SHARE, 0 to 1, or --none")
    done = f"{region} is capped at {share:.0%}" if share is not None else f"{region} has no cap"
    _say(_set(region, "cap", {"share": share, "reason": reason}), as_json, done, f"{region} had no cap")


def _why(reason: str | None) -> dict[str, Any]:
    """Ending something needs no reason: what was set had one."""
    return {} if reason is None else {"reason": reason}


def _set(region: str, verb: str, body: dict[str, Any]) -> Any:
    return client.post(f"/regions/{client.segment(region)}/{verb}", body)


def _say(answer: Any, as_json: bool, done: str, nothing: str = "") -> None:
    if as_json:
        click.echo(msgspec.json.encode(answer))
    else:
        click.echo(done if answer.get("changed", True) else nothing)
