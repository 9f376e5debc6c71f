"""`director regions|plan|events|explain`: what a running director says of itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import msgspec
from rich.table import Table

from director.commands import client
from director.commands.output import as_table, json_option, show, table

WATCH_S = 2.0
FOLLOW_S = 1.0

watch_option = click.option("--watch", is_flag=True, help=f"Again every {WATCH_S:g} s, until Ctrl-C.")


@click.command("regions")
@json_option
@watch_option
def regions_command(as_json: bool, watch: bool) -> None:
    """Every region: report age, health, capacity, demand, what operators set."""
    _show(lambda: client.get("/regions"), _print_regions, as_json, watch)


@click.command("plan")
@json_option
@watch_option
def plan_command(as_json: bool, watch: bool) -> None:
    """The plan in force: each deployment with its capacity, breaker and admissions."""
    _show(lambda: client.get("/plan"), _print_plan, as_json, watch)


@click.command("events")
@click.option("--region", help="Of this region only.")
@click.option("--kind", help="Of this kind only: drain, breaker, policy, …")
@click.option("--since", help="From this RFC 3339 time on.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--follow", is_flag=True, help="Go on with what comes, one line each, until Ctrl-C.")
@json_option
@watch_option
def events_command(
    region: str | None, kind: str | None, since: str | None, limit: int, follow: bool, as_json: bool, watch: bool
) -> None:
    """What changed, when, and why: oldest first."""
    if follow and watch:
        raise click.UsageError("--follow adds lines, --watch shows the list again: choose one")
    wanted = {"region": region, "kind": kind, "limit": limit}
    if not follow:
        _show(lambda: client.get("/events", since=since, **wanted), _print_events, as_json, watch)
        return
    found = client.get("/events", since=since, **wanted)
    newest = 0
    while True:
        for event in found:
            newest = max(newest, event["id"])
            click.echo(msgspec.json.encode(event) if as_json else event_line(event))
        _pause(FOLLOW_S)
        found = client.get("/events", since_id=newest, **wanted)


@click.command("explain")
@click.option("--tenant", help="Needed, unless the policy has a default tenant.")
@click.option("--model", required=True)
@click.option("--version", help="Exact, or a glob.")
@click.option("--adapter")
@click.option("--client-ip", help="The client's address, or …")
@click.option("--client-zone", help="… its zone.")
@click.option("--session", help="The key of the pick.")
@click.option("--affinity", help="An affinity token.")
@click.option("--residency", multiple=True, help="Narrow where the data may go; may be given several times.")
@click.option("--exclude", multiple=True, help="A region not to use; may be given several times.")
@click.option("--at", help="An RFC 3339 time: as it was then.")
@json_option
@watch_option
def explain_command(as_json: bool, watch: bool, **fields: Any) -> None:
    """Why a request goes where it goes. Exit 1 when no region is left."""
    asked = {name: value for name, value in fields.items() if value not in (None, ())}
    answer = _show(lambda: client.post("/explain", asked), print_explanation, as_json, watch)
    if answer.get("region") is None:
        raise click.exceptions.Exit(1)


def _show(ask: Callable[[], Any], render: Callable[[Any], None], as_json: bool, watch: bool) -> Any:
    """Print what `ask` says: once, and return it; or again and again."""
    answer = ask()
    while True:
        if watch and not as_json:
            click.clear()
        _print(answer, render, as_json)
        if not watch:
            return answer
        answer = _next(ask)


def _next(ask: Callable[[], Any]) -> Any:
    """The next answer of a watched command. One that fails is told in its line, and asked for again: a director that
    restarts does not end the watching."""
    while True:
        _pause(WATCH_S)
        try:
            return ask()
        except click.exceptions.Exit:
            continue


def _print(answer: Any, render: Callable[[Any], None], as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(answer))
    else:
        render(answer)


def _pause(length_s: float) -> None:
    """Wait; Ctrl-C is how a person ends it, and no failure."""
    try:
        time.sleep(length_s)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(0) from None


def _print_regions(answer: dict[str, Any]) -> None:
    show(region_table(answer))


def region_table(answer: dict[str, Any]) -> Table:
    """The object of `/regions`, one row a region."""
    columns = ("region", "reports", "age", "health", "operator", "capacity", "demand", "ratio")
    rows = [_region_row(region) for region in answer["regions"]]
    return as_table(columns, rows, right=columns[-3:], title=_plan_line(answer["plan"]))


def _region_row(region: dict[str, Any]) -> tuple[str, ...]:
    health, gateway = region["health"], region["gateway"]
    return (
        region["region"],
        region["freshness"],
        _age(region["report_age_ms"]),
        health if health == gateway else f"{health}/{gateway}",
        _operator(region),
        _rate(region["capacity_tokens_per_s"]),
        _rate(region["demand_tokens_per_s"]),
        _share(region["demand_ratio"]),
    )


def _print_plan(answer: dict[str, Any]) -> None:
    columns = ("region", "model", "version", "state", "breaker", "capacity", "demand", "home", "overflow")
    rows = [_deployment_row(one) for one in answer["deployments"]]
    table(columns, rows, right=columns[-4:-1], title=_plan_line(answer))


def _deployment_row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["region"],
        one["model"],
        one["version"],
        one["state"],
        one["breaker"],
        _rate(one["capacity_tokens_per_s"]),
        _rate(one["offered_tokens_per_s"] + one["pinned_tokens_per_s"]),
        _share(one["admit_home"]),
        " ".join(_share(ratio) for ratio in one["admit_overflow"]) or "–",
    )


def _print_events(answer: list[dict[str, Any]]) -> None:
    rows = []
    for event in answer:
        what = "/".join(event[name] for name in ("region", "model", "version") if event[name])
        change = f"{event['before']} → {event['after']}" if event["before"] or event["after"] else ""
        rows.append((event["at"], event["kind"], what, change, event["who"], event["why"]))
    table(("at", "kind", "what", "change", "who", "why"), rows)


def event_line(event: dict[str, Any]) -> str:
    """An event as one line."""
    what = "/".join(event[name] for name in ("region", "model", "version") if event[name])
    change = f" {event['before']} → {event['after']}" if event["before"] or event["after"] else ""
    return f"{event['at']} {event['kind']} {what}{change}: {event['why']} ({event['who']})"


def print_explanation(answer: dict[str, Any]) -> None:
    """The object of `/explain`, one row a candidate."""
    rows = []
    for one in answer["candidates"]:
        rejection = one.get("rejection")
        nearness = one.get("nearness") or {}
        rows.append(
            (
                one["region"],
                one.get("version") or "–",
                _ms(nearness.get("near_ms")),
                _share(one.get("share")),
                f"{rejection['code']} ({rejection['filter']})" if rejection else "",
            )
        )
    picked = answer.get("region")
    title = f"{picked}: {answer.get('reason')}" if picked else "no region is left"
    table(("region", "version", "near", "share", "rejected by"), rows, right=("near", "share"), title=title)


def _plan_line(plan: dict[str, Any]) -> str:
    static = ", STATIC" if plan["static"] else ""
    return f"plan {plan['epoch']}, policy {plan['policy']}, {plan['age_ms'] / 1000:.1f} s old{static}"


def _operator(region: dict[str, Any]) -> str:
    parts = []
    operator = region.get("operator")
    if operator:
        parts.append(f"{operator['kind']} by {operator['who']}: {operator['reason']}")
    if region.get("share_cap") is not None:
        parts.append(f"cap {region['share_cap']:.0%}")
    return "; ".join(parts)


def _age(age_ms: int | None) -> str:
    return "–" if age_ms is None else f"{age_ms / 1000:.0f} s"


def _rate(tokens_per_s: float) -> str:
    return f"{tokens_per_s:,.0f} t/s"


def _share(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.1%}"


def _ms(length_ms: float | None) -> str:
    return "–" if length_ms is None else f"{length_ms:.1f} ms"
