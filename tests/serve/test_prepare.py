"""The preparation: schema, first key, policy folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from director.policy.load import LoadedPolicy, load
from director.resources import policies_dir
from director.serve.child import UNUSABLE
from director.serve.prepare import WHO, prepare, take_in
from director.serve.supervisor import UNAVAILABLE
from director.store import keys, policies
from director.store.database import Database
from director.store.migrate import current, head

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def example() -> LoadedPolicy:
    return load(policies_dir())


def edited(loaded: LoadedPolicy, note: str) -> LoadedPolicy:
    """The same policy, after somebody touched a file of its folder."""
    name = min(loaded.files)
    return LoadedPolicy(loaded.policy, (), {**loaded.files, name: loaded.files[name] + f"\n# {note}\n"})


def test_an_empty_database_is_brought_to_this_release(empty_postgres_url: str) -> None:
    """Schema and signing key are there; a second run changes nothing."""
    assert prepare(empty_postgres_url, policies_dir()) == 0
    assert current(empty_postgres_url) == head()
    assert prepare(empty_postgres_url, policies_dir()) == 0


async def test_a_folder_is_taken_in_once(database: Database, example: LoadedPolicy) -> None:
    """The first time it becomes version 1; unchanged, it stays that."""
    assert await take_in(database, example) == 1
    assert await take_in(database, example) == 1
    stored = await policies.current(database)
    assert stored is not None
    assert (stored.who, stored.files) == (WHO, example.files)


async def test_a_changed_folder_is_taken_in_again(database: Database, example: LoadedPolicy) -> None:
    """Edit, restart: that is the next version."""
    await take_in(database, example)
    assert await take_in(database, edited(example, "more")) == 2


async def test_an_unchanged_folder_does_not_override_what_was_applied_since(
    database: Database, example: LoadedPolicy
) -> None:
    """A restart must not undo what an operator applied over the API: the folder is only older."""
    await take_in(database, example)
    applied = edited(example, "over the API")
    assert await policies.add(database, applied.files, applied.policy, "ann", "urgent") == 2
    assert await take_in(database, example) == 2
    assert await take_in(database, edited(example, "and then the folder")) == 3


async def test_it_makes_the_first_key_and_keeps_it(postgres_url: str, database: Database) -> None:
    """Affinity tokens survive a restart."""
    assert await keys.load(database) is None
    ring = await keys.ensure(database)
    assert await keys.ensure(database) == ring


def test_a_database_that_is_away_is_told_from_a_policy_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The supervisor tries the one again and gives up on the other."""
    monkeypatch.setattr("director.serve.prepare.PATIENCE_S", 0.1)
    assert prepare(f"postgresql://x@/y?host={tmp_path}", None) == UNAVAILABLE
    (tmp_path / "a.yaml").write_text("regoins: {}\n")
    assert prepare("postgresql://x@/y", tmp_path) == UNUSABLE
    assert "a.yaml:1: regoins" in capsys.readouterr().err
