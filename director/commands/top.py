"""`director top`: the fleet in a terminal, live."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from director.commands import client
from director.commands.ask import event_line, region_table
from director.commands.output import as_table

EVENTS_SHOWN = 12
BAR = 20


@click.command("top")
@click.option("--every-s", type=click.FloatRange(min=0.2), default=1.0, show_default=True)
def top_command(every_s: float) -> None:
    """The fleet, live: regions with their load, deployments that are not well, the newest events. Ctrl-C ends it."""
    console = Console(highlight=False)
    if not console.is_terminal:
        raise click.UsageError("needs a terminal; for scripts there is `director regions --json`")
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(frame(client.get("/regions"), client.get("/events", limit=EVENTS_SHOWN)), refresh=True)
                time.sleep(every_s)
        except KeyboardInterrupt:
            return


def frame(answer: dict[str, Any], events: list[dict[str, Any]]) -> Group:
    """One picture: what `/regions` and `/events` say."""
    parts: list[Any] = [region_table(answer), Text()]
    loads = [(one["region"], bar(one["demand_ratio"])) for one in answer["regions"]]
    parts += [as_table(("region", "demand ÷ capacity"), loads), Text()]
    unwell = [row for region in answer["regions"] for one in region["deployments"] if (row := _unwell(one))]
    if unwell:
        parts += [as_table(("deployment", "what"), unwell), Text()]
    return Group(*parts, *(Text(event_line(event), no_wrap=True) for event in reversed(events)))


def bar(ratio: float | None) -> str:
    """A bar that is full at 1; what is beyond shows as a number."""
    if ratio is None:
        return "no capacity"
    full = min(BAR, round(ratio * BAR))
    return f"{'█' * full}{'·' * (BAR - full)} {ratio:5.0%}"


def _unwell(one: dict[str, Any]) -> tuple[str, str] | None:
    """A deployment that takes less than all of its share, and why."""
    words = []
    if one["state"] != "serving":
        words.append(one["state"])
    if one["ready_replicas"] == 0:
        words.append("no ready replica")
    if one["breaker"] != "closed":
        words.append(f"breaker {one['breaker']}" + (f" until {one['breaker_until']}" if one["breaker_until"] else ""))
    if one["admit_home"] < 1:
        words.append(f"admits {one['admit_home']:.0%} of its home")
    if one["quality"] < 1:
        words.append(f"quality {one['quality']:.2f}")
    return (f"{one['region']}/{one['model']}/{one['version']}", ", ".join(words)) if words else None
