"""The command `director demo`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

UNUSABLE = 2


@click.command("demo")
@click.option("--http-port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option("--dns-port", type=click.IntRange(1, 65535), default=8053, show_default=True)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-data"),
    show_default=True,
    help="Database, logs, and demo.json with addresses and tokens.",
)
@click.option("--reset", is_flag=True, help="Begin anew: forget what a former demo stored in --data.")
def demo_command(http_port: int, dns_port: int, data: Path, reset: bool) -> None:
    """Run the director with a small live fleet: five regions, two models, real requests, failures now and then."""
    from director.demo import run

    data = data.absolute()
    try:
        if reset:
            run.reset(data)
        asyncio.run(run.Demo(http_port, dns_port, data, _say).run())
    except run.CannotRun as error:
        click.echo(f"director demo: {error}", err=True)
        sys.exit(UNUSABLE)


def _say(line: str) -> None:
    """Line by line, also into a pipe."""
    click.echo(line)
    sys.stdout.flush()
