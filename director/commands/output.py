"""Tables for people. Scripts use --json."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH_PIPED = 240

json_option = click.option("--json", "as_json", is_flag=True, help="JSON, for scripts.")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), title: str = "") -> None:
    """Print rows; `right`: the columns of figures."""
    show(as_table(columns, rows, right=right, title=title))


def show(shown: Table) -> None:
    # Into a pipe or a file nothing is folded: whoever reads it there has no edge.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_PIPED)
    console.print(shown)


def as_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), title: str = ""
) -> Table:
    shown = Table(box=None, title=title or None, title_justify="left", pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        # As text, never as markup: a region's own words may hold brackets.
        shown.add_row(*(Text(str(cell)) for cell in row))
    return shown
