"""An installed wheel carries everything that a checkout has beside the code."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content alone, far from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def director(installed: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the installed package with the environment's libraries, and without the checkout in sight."""
    # -S: the environment's .pth files, which point at the checkout, are not read.
    code = "import sys; from director.cli import main; main(prog_name='director')"
    paths = os.pathsep.join((str(installed), sysconfig.get_paths()["purelib"]))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DIRECTOR_", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments],
        cwd=installed.parent,
        env={**clean, "PYTHONPATH": paths, **env},
        capture_output=True,
        text=True,
    )


def test_the_wheel_is_what_runs(installed: Path) -> None:
    """The test looks at the wheel and not at the checkout by accident."""
    code = "import director; print(director.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=installed,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == str(installed / "director" / "__init__.py")


def test_migrations_travel_along(installed: Path, empty_postgres_url: str) -> None:
    """`director migrate` brings an empty database to this release, from the wheel alone."""
    from director.store.migrate import head

    done = director(installed, "migrate", DIRECTOR_DATABASE_URL=empty_postgres_url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"schema: {head()}"


def test_example_policies_travel_along(installed: Path) -> None:
    """`director policy check` takes the packaged example."""
    done = director(installed, "policy", "check", str(installed / "director" / "_data" / "policies"))
    assert done.returncode == 0, done.stderr
    assert "fine" in done.stdout


def test_templates_and_other_files_travel_along(installed: Path) -> None:
    """Every file of the package that is no Python is in the wheel too."""
    package = ROOT / "director"
    wanted = {
        path.relative_to(package)
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "__pycache__" not in path.parts
    }
    missing = {str(path) for path in wanted if not (installed / "director" / path).is_file()}
    assert missing == set()
    assert wanted, "there are templates at least"
