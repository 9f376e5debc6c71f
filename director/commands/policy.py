"""`director policy`: check a folder here, or ask a running director to take it in."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from director.commands.output import json_option
from director.commands.policy_change import apply_command, diff_command, history_command, rollback_command


@click.group("policy")
def policy_group() -> None:
    """Check, compare, apply and roll back policies."""


@policy_group.command("check")
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def check_command(path: Path, as_json: bool) -> None:
    """Check a policy folder or file: every problem with file, line, path and what was expected. Exit 1 for any."""
    from director.policy import PolicyInvalid, load

    try:
        loaded = load(path)
    except PolicyInvalid as error:
        if as_json:
            click.echo(msgspec.json.encode({"ok": False, "problems": error.problems, "warnings": ()}))
        else:
            for problem in error.problems:
                click.echo(str(problem), err=True)
        raise click.exceptions.Exit(1) from None
    if as_json:
        click.echo(msgspec.json.encode({"ok": True, "problems": (), "warnings": loaded.warnings}))
        return
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    policy = loaded.policy
    names = sum(len(zone.names) for zone in policy.dns.values())
    click.echo(
        f"{path}: fine: {len(policy.regions)} regions, {len(policy.models)} models, {len(policy.tenants)} tenants, "
        f"{names} DNS names"
    )


@policy_group.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of a policy, for editors."""
    from director.policy import json_schema

    click.echo(msgspec.json.format(msgspec.json.encode(json_schema()), indent=2))


for command in (diff_command, apply_command, rollback_command, history_command):
    policy_group.add_command(command)
