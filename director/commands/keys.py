"""`director keys`: the keys that sign affinity tokens (and DNS cookies)."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from director.commands.database import data_option, with_database
from director.commands.output import json_option, table
from director.core.affinity import KeyRing
from director.store import keys
from director.store.database import Database


@click.group("keys")
def keys_group() -> None:
    """The keys that sign affinity tokens. Never shown: only their ids are."""


@keys_group.command("list")
@json_option
@data_option
def list_command(as_json: bool, data: Path) -> None:
    """Every key that verifies tokens, oldest first, and which one signs."""

    async def load(database: Database) -> KeyRing | None:
        return await keys.load(database)

    _show(with_database(data, load), as_json)


@keys_group.command("rotate")
@json_option
@data_option
def rotate_command(as_json: bool, data: Path) -> None:
    """Add a key. It signs after 10 s, when every replica knows it; the others verify for a day, and then go."""

    async def rotate(database: Database) -> KeyRing:
        return await keys.rotate(database)

    _show(with_database(data, rotate), as_json)


def _show(keyring: KeyRing | None, as_json: bool) -> None:
    keys_told = {} if keyring is None else {key: key == keyring.current for key in keyring.keys}
    if as_json:
        click.echo(msgspec.json.encode([{"id": key, "signs": signs} for key, signs in keys_told.items()]))
        return
    table(("key", "does"), [(key, "signs and verifies" if signs else "verifies") for key, signs in keys_told.items()])
