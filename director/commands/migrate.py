"""`director migrate`."""

from __future__ import annotations

from pathlib import Path

import click

from director.commands.database import data_option, database_url
from director.store import migrate
from director.store.database import DatabaseUnavailable


@click.command("migrate")
@data_option
@click.option("--show", is_flag=True, help="Only say which revision the database is at.")
def migrate_command(data: Path, show: bool) -> None:
    """Bring the database's schema to this release. Safe to run twice, and beside the previous release."""
    url = database_url(data)
    try:
        if not show:
            migrate.upgrade(url)
        click.echo(f"schema: {migrate.current(url) or 'empty'}")
    except DatabaseUnavailable as error:
        raise click.ClickException(f"the database cannot be reached: {error}") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
