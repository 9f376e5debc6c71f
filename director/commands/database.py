"""Commands that go to the database themselves: which one, and what to say when it is away."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from director.serve import running
from director.store.database import Database, DatabaseUnavailable

T = TypeVar("T")

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("director-data"),
    show_default=True,
    envvar="DIRECTOR_DATA",
    help="The data folder of a running `director serve`; DIRECTOR_DATABASE_URL goes before it.",
)


def database_url(data: Path) -> str:
    """The database of DIRECTOR_DATABASE_URL, else the one that a running director of this folder uses."""
    url = os.environ.get("DIRECTOR_DATABASE_URL")
    if url:
        return url
    found = running.read(data)
    if found is None:
        raise click.UsageError(
            f"no database: set DIRECTOR_DATABASE_URL, or name the --data folder of a running director (none in {data})"
        )
    return found.database_url


def with_database(data: Path, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run one piece of work on the database and close it."""
    url = database_url(data)

    async def connected() -> T:
        database = Database(url, pool_size=1)
        try:
            return await work(database)
        finally:
            await database.close()

    try:
        return asyncio.run(connected())
    except DatabaseUnavailable as error:
        raise click.ClickException(f"the database cannot be reached: {error}") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
