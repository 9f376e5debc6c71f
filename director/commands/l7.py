"""`director l7`: what a proxy needs beside the decision. Fallbacks for a silent director, and outcomes in batches."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import httpx
import msgspec

from director.commands import client, l7_fallbacks

FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "nginx": l7_fallbacks.nginx,
    "nginx-maps": lambda answer: l7_fallbacks.nginx(answer, upstreams=False),
    "haproxy": l7_fallbacks.haproxy,
    "haproxy-map": l7_fallbacks.haproxy_map,
    "json": lambda answer: msgspec.json.format(msgspec.json.encode(answer)).decode() + "\n",
}
TIMEOUT_S = 5.0


@click.group("l7")
def l7_group() -> None:
    """Feed a proxy (NGINX, HAProxy, Envoy) and hear from it."""


@l7_group.command("fallbacks")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), default="json", show_default=True)
@click.option("--client-zone", help="Where this proxy's clients are: the order is theirs.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write there in one rename, and only what changed; prints changed or unchanged.",
)
@click.option("--plus-api", help="Put them into this keyval zone of an NGINX Plus instead: …/api/9/http/keyvals/NAME.")
def fallbacks_command(form: str, client_zone: str | None, output: Path | None, plus_api: str | None) -> None:
    """The permitted regions of every tenant and model, as a proxy reads them. DIRECTOR_TOKEN holds `decide`."""
    if plus_api is not None and output is not None:
        raise click.UsageError("--plus-api and --output are two places: choose one")
    answer = client.get("/fallbacks", client_zone=client_zone)
    if plus_api is not None:
        click.echo(_put_keyvals(plus_api, l7_fallbacks.keyvals(answer)))
        return
    try:
        text = FORMATS[form](answer)
    except l7_fallbacks.EndpointUnusable as error:
        raise click.ClickException(str(error)) from error
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        changed = l7_fallbacks.write_if_changed(output, text)
    except OSError as error:
        click.echo(f"director: {output}: {error.strerror}", err=True)
        raise click.exceptions.Exit(2) from error
    click.echo("changed" if changed else "unchanged")


def _put_keyvals(url: str, wanted: dict[str, str]) -> str:
    """Bring a keyval zone to `wanted`: new and changed keys first, then those that are no longer permitted."""
    try:
        with httpx.Client(timeout=TIMEOUT_S) as plus:
            present: dict[str, str] = plus.get(url).raise_for_status().json()
            put = {key: value for key, value in wanted.items() if key in present and present[key] != value}
            gone = {key: None for key in present if key not in wanted}
            new = {key: value for key, value in wanted.items() if key not in present}
            for key, value in new.items():
                plus.post(url, json={key: value}).raise_for_status()
            for key, changed in {**put, **gone}.items():
                plus.patch(url, json={key: changed}).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError) as error:
        click.echo(f"director: {url}: {error or type(error).__name__}", err=True)
        raise click.exceptions.Exit(2) from error
    return "changed" if put or gone or new else "unchanged"


@l7_group.command("outcomes")
@click.option("--reporter", required=True, help="This proxy's name: one witness. Two proxies never share one.")
@click.option("--listen", help="Datagrams there: 127.0.0.1:5140, or unix:/run/director/outcomes.sock.")
@click.option("--stdin", "from_stdin", is_flag=True, help="Lines on standard input, to its end.")
@click.option("--every-s", type=click.FloatRange(min=0.1), default=1.0, show_default=True)
def outcomes_command(reporter: str, listen: str | None, from_stdin: bool, every_s: float) -> None:
    """Send what a proxy logs of its requests to the director, in batches. DIRECTOR_TOKEN holds `decide`."""
    from director.commands.l7_sending import Destination, forward, place_of

    if (listen is None) == (not from_stdin):
        raise click.UsageError("say where the lines come from: --listen or --stdin")
    token = os.environ.get("DIRECTOR_TOKEN")
    if not token:
        raise click.UsageError("set DIRECTOR_TOKEN to a bearer token (director token create NAME --scope decide)")
    try:
        place = place_of(listen) if listen is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from error
    url = os.environ.get("DIRECTOR_URL", client.DEFAULT_URL).rstrip("/")
    try:
        asyncio.run(forward(Destination(url, token, reporter), place, every_s))
    except OSError as error:
        click.echo(f"director: {listen}: {error.strerror or error}", err=True)
        sys.exit(2)
