"""Migrations and policies are found in a checkout and in an installed wheel."""

from __future__ import annotations

import pytest

from director import resources


def test_a_checkout_has_them_beside_the_package():
    """They are the folders that people edit."""
    assert (resources.migrations_dir() / "env.py").is_file()
    assert resources.policies_dir().is_dir()


def test_an_installed_package_uses_its_own_copy(tmp_path, monkeypatch):
    """Whatever else of that name lies beside it among the installed packages."""
    package = tmp_path / "site-packages" / "director"
    (package / "_data" / "migrations").mkdir(parents=True)
    (package.parent / "migrations").mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", package)
    assert resources.migrations_dir() == package / "_data" / "migrations"


def test_a_broken_installation_says_so(tmp_path, monkeypatch):
    """The message names both places that were looked at."""
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "director")
    with pytest.raises(FileNotFoundError, match="the installation is broken"):
        resources.policies_dir()
