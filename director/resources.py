"""Files that travel with the code: migrations and example policies.

In a checkout they stand beside the package; a wheel carries them inside it.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def migrations_dir() -> Path:
    """The folder of Alembic's migrations. Raises FileNotFoundError for a broken installation."""
    return _find("migrations")


def policies_dir() -> Path:
    """The folder of example policies. Raises FileNotFoundError for a broken installation."""
    return _find("policies")


def _find(name: str) -> Path:
    # The wheel's copy first: beside an installed package there may be anybody's folder of that name.
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"{name}: neither in {_PACKAGE / '_data'} nor beside {_PACKAGE}; the installation is broken"
    )
