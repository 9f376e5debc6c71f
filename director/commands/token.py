"""`director token`: who may ask."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from director.commands.database import data_option, with_database
from director.commands.output import json_option, table
from director.store import tokens
from director.store.database import Database

SCOPES = "decide, decide:TENANT, report:REGION, read, operate"
_SCOPE = re.compile(r"decide(:[^\s:,]+)?|report:[^\s:,]+|read|operate")


@click.group("token")
def token_group() -> None:
    """Create, list and revoke bearer tokens. The database holds their hashes only."""


@token_group.command("create")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, help=f"May be given several times: {SCOPES}.")
@click.option(
    "--trusted-headers",
    is_flag=True,
    help="Its holder sets X-Director-… headers itself and strips those of its clients.",
)
@click.option("--expires-in-days", type=click.FloatRange(min=0, min_open=True), help="Without: never.")
@click.option("--replace", is_flag=True, help="Revoke the live token of this name in the same step.")
@data_option
def create_command(
    name: str,
    scopes: tuple[str, ...],
    trusted_headers: bool,
    expires_in_days: float | None,
    replace: bool,
    data: Path,
) -> None:
    """Create a token and print it: the only time that it can be seen."""
    for scope in scopes:
        if _SCOPE.fullmatch(scope) is None:
            raise click.BadParameter(f"expected one of {SCOPES}, got {scope!r}", param_hint="--scope")

    async def create(database: Database) -> str:
        expires_at_ms = None
        if expires_in_days is not None:
            expires_at_ms = await database.now_ms() + int(expires_in_days * 86_400_000)
        return await tokens.create(
            database, name, scopes, trusted_headers=trusted_headers, expires_at_ms=expires_at_ms, replace=replace
        )

    try:
        click.echo(with_database(data, create))
    except tokens.TokenNameTaken as error:
        raise click.ClickException(f"{error}: choose another name, or --replace it") from error


@token_group.command("list")
@click.option("--revoked", is_flag=True, help="The revoked ones too.")
@json_option
@data_option
def list_command(revoked: bool, as_json: bool, data: Path) -> None:
    """Every token: name, scopes, and when it ends. Never the token itself."""

    async def listed(database: Database) -> list[tokens.TokenInfo]:
        return await tokens.list_tokens(database, revoked=revoked)

    found = with_database(data, listed)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    rows = [
        (
            info.name,
            " ".join(info.scopes),
            "yes" if info.trusted_headers else "",
            _day(info.created_at_ms),
            _day(info.expires_at_ms) or "never",
            _day(info.revoked_at_ms),
        )
        for info in found
    ]
    table(("name", "scopes", "trusted headers", "created", "expires", "revoked"), rows)


@token_group.command("revoke")
@click.argument("name")
@data_option
def revoke_command(name: str, data: Path) -> None:
    """End a token. Replicas follow within a second."""

    async def revoke(database: Database) -> bool:
        return await tokens.revoke(database, name)

    if not with_database(data, revoke):
        raise click.ClickException(f"no live token is named {name!r}")


def _day(at_ms: int | None) -> str:
    return "" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
