"""`director simulate SCENARIO`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from director.sim import figures, loading, results
from director.sim.checks import CheckUnusable
from director.sim.kept import KeptResult, play_kept
from director.sim.measure import Record
from director.sim.report_html import page
from director.sim.world.trace import TraceUnusable

EXIT_CHECK_FAILED = 1
EXIT_UNUSABLE = 2
WIDTH_MIN = 110


@click.command("simulate")
@click.argument("scenario")
@click.option("--json", "as_json", is_flag=True, help="Print the figures and checks as one JSON object.")
@click.option("--html", "html_file", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with plots.")
@click.option("--seed", type=int, help="Stands in for the scenario's own seed.")
@click.option("--policies", help="Comma-separated; stands in for the scenario's own list. `all` runs every one.")
@click.option(
    "--kept", is_flag=True, help="Run the failing seeds that the file keeps, and say whether they still fail."
)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def simulate_command(
    scenario: str,
    as_json: bool,
    html_file: Path | None,
    seed: int | None,
    policies: str | None,
    kept: bool,
    quiet: bool,
) -> None:
    """Drive the real planner and decisions with a workload and faults.

    SCENARIO is a file, or the name of one that ships with the director. Exits 1 when a check fails (with
    --kept: when one still does), 2 when the scenario cannot be run.
    """
    if kept and (html_file or seed is not None or policies):
        raise click.UsageError("--kept takes seeds and policies from the file, and makes no page")
    try:
        path = find(scenario)
        loaded = loading.load(path, seed=seed, policies=_policies(policies))
        if kept:
            _run_kept(loaded, path, as_json=as_json)
            return
        judged = _play(loaded, quiet=quiet or (as_json and not sys.stderr.isatty()))
    except (loading.ScenarioInvalid, CheckUnusable, TraceUnusable) as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(EXIT_UNUSABLE) from error
    if html_file is not None:
        try:
            html_file.write_text(page(judged), encoding="utf-8")
        except OSError as error:
            click.echo(f"error: {html_file}: {error.strerror}", err=True)
            raise SystemExit(EXIT_UNUSABLE) from error
    if as_json:
        click.echo(json.dumps(judged.as_json(), indent=2, ensure_ascii=False))
    else:
        _print(judged)
        if html_file is not None:
            click.echo(f"page: {html_file}")
    if not judged.ok:
        raise SystemExit(EXIT_CHECK_FAILED)


def _run_kept(loaded: loading.LoadedScenario, path: Path, *, as_json: bool) -> None:
    found = play_kept(lambda seed: loading.load(path, seed=seed), loaded.kept)
    ok = all(each.result.ok for each in found)
    if as_json:
        out = {"scenario": loaded.name, "kept": [each.as_json() for each in found], "ok": ok}
        click.echo(json.dumps(out, indent=2, ensure_ascii=False))
    else:
        Console(width=WIDTH_MIN).print(_kept_table(found))
    if not ok:
        raise SystemExit(EXIT_CHECK_FAILED)


def _kept_table(found: list[KeptResult]) -> Table:
    table = Table(title="kept seeds", title_justify="left", box=None)
    for title in ("seed", "check", "value", "bound", "", "why"):
        table.add_column(title)
    for each in found:
        result = each.result
        verdict = "[green]holds now[/green]" if result.ok else "[red]fails[/red]"
        table.add_row(str(each.kept.seed), result.name, f"{result.value:g}", result.bound, verdict, each.kept.why)
    return table


def find(scenario: str) -> Path:
    """A path that exists, else a shipped scenario of that name. Raises `ScenarioInvalid` with the names there are."""
    path = Path(scenario)
    if path.is_file():
        return path
    for folder in shipped_folders():
        if (folder / f"{scenario}.yaml").is_file():
            return folder / f"{scenario}.yaml"
    names = sorted(each.stem for folder in shipped_folders() if folder.is_dir() for each in folder.glob("*.yaml"))
    raise loading.ScenarioInvalid(f"{scenario}: no such file; expected a path or one of {', '.join(names)}")


def shipped_folders() -> tuple[Path, Path]:
    """In a wheel, and in a checkout."""
    package = Path(__file__).resolve().parent.parent
    return package / "_data" / "policies" / "scenarios", package.parent / "policies" / "scenarios"


def _policies(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return loading.POLICIES if text == "all" else tuple(each.strip() for each in text.split(",") if each.strip())


def _play(loaded: loading.LoadedScenario, *, quiet: bool) -> results.Results:
    if quiet:
        return results.play(loaded)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(loaded.name, total=results.seconds_of(loaded))
        return results.play(loaded, lambda _: bar.advance(task))


def _print(judged: results.Results) -> None:
    console = Console()
    # Seven policies side by side need their room, also where the output is no terminal.
    console.width = max(console.width, WIDTH_MIN)
    console.print(f"[bold]{judged.scenario}[/bold], seed {judged.seed}: {judged.about}", highlight=False)
    for variant, records in judged.variants.items():
        console.print(_comparison(variant, records))
    if judged.checks:
        console.print(_verdicts(judged))


def _comparison(variant: str, records: Mapping[str, Record]) -> Table:
    """Figures down, policies across."""
    table = Table(title=variant or None, title_justify="left", box=None)
    table.add_column("")
    for policy in records:
        table.add_column(policy, justify="right", no_wrap=True)
    summaries = [figures.summary(record) for record in records.values()]
    for title, key, form in results.COLUMNS:
        table.add_row(title, *(form.format(summary[key]) for summary in summaries))
    return table


def _verdicts(judged: results.Results) -> Table:
    table = Table(title="checks", title_justify="left", box=None)
    for title in ("check", "value", "bound", ""):
        table.add_column(title, justify="left" if title in ("check", "") else "right")
    for check in judged.checks:
        verdict = "[green]holds[/green]" if check.ok else "[red]fails[/red]"
        table.add_row(check.name, f"{check.value:g}", check.bound, verdict)
    return table
