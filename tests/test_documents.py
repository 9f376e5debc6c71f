"""Documents are true: every command in them parses, every link leads somewhere."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from director.cli import main

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
FENCE = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """Every `director …` line of a page's shell blocks, continuation lines joined."""
    found = []
    for block in FENCE.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            bare = line.strip().removeprefix("$ ").removeprefix(".venv/bin/")
            if bare.startswith("director "):
                found.append(re.split(r"\s[|>&]|\s#", bare)[0])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_parse(page: Path) -> None:
    """Each command names a command that exists, with options that it takes."""
    for line in commands(page):
        words = shlex.split(line)[1:]
        command: click.Command = main
        parent: click.Context | None = None
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            parent = click.Context(command, info_name=command.name, parent=parent)
            following = command.get_command(parent, words[0])
            assert following is not None, f"{line}: no command {words[0]}"
            command, words = following, words[1:]
        if "--help" not in words and "…" not in line and "..." not in line:
            command.make_context(command.name, words, parent=parent, resilient_parsing=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that is there."""
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_pages_name_no_machine() -> None:
    """The project speaks of itself alone: no path of a machine, no package host."""
    for page in PAGES:
        text = page.read_text()
        assert not re.search(r"/(work|farm|root|home/\w+)/", text), page
        assert "pypi.org" not in text, page


def test_every_folder_of_tests_is_run() -> None:
    """The order of tests is a list, and a list can forget."""

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
    folders = {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders <= set(listed)
