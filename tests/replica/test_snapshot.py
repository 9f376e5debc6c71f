from __future__ import annotations

import stat
from pathlib import Path

import pytest

from director.replica import snapshot as snapshots
from director.replica.snapshot import Snapshot, SnapshotRefused
from director.store.tokens import TokenRecord
from tests.replica.worlds import KEYRING, POLICY, plan


@pytest.fixture
def snapshot() -> Snapshot:
    return Snapshot(
        plan=plan(),
        policy=POLICY,
        policy_version=3,
        keyring=KEYRING,
        tokens=(TokenRecord(hash="ab" * 32, name="edge", scopes=("decide",)),),
        heartbeat_at_ms=123_456,
    )


def test_what_was_written_is_read_again(tmp_path: Path, snapshot: Snapshot) -> None:
    """Plan, policy, keys and tokens come back equal."""
    path = tmp_path / "data" / "snapshot.json"
    snapshots.write(path, snapshot)
    assert snapshots.read(path) == snapshot


def test_only_its_owner_may_read_it(tmp_path: Path, snapshot: Snapshot) -> None:
    """The file holds the keys that sign affinity tokens."""
    path = tmp_path / "snapshot.json"
    snapshots.write(path, snapshot)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_file_is_no_snapshot(tmp_path: Path) -> None:
    """A first start has none, and that is no error."""
    assert snapshots.read(tmp_path / "snapshot.json") is None


@pytest.mark.parametrize("position", [0, 30, 70, 200, -2])
def test_a_changed_byte_is_refused(tmp_path: Path, snapshot: Snapshot, position: int) -> None:
    """One flipped bit anywhere, in the header or in the content, and the file is not believed."""
    path = tmp_path / "snapshot.json"
    snapshots.write(path, snapshot)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(SnapshotRefused):
        snapshots.read(path)


@pytest.mark.parametrize("length", [0, 10, 92, 400])
def test_a_cut_file_is_refused(tmp_path: Path, snapshot: Snapshot, length: int) -> None:
    """A disk that was full, or a copy that broke off."""
    path = tmp_path / "snapshot.json"
    snapshots.write(path, snapshot)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(SnapshotRefused):
        snapshots.read(path)


def test_content_of_another_release_is_refused(tmp_path: Path) -> None:
    """A good checksum over something that does not fit our types: refused with the field."""
    from hashlib import sha256

    body = b'{"plan": 1}'
    path = tmp_path / "snapshot.json"
    path.write_bytes(snapshots.FORMAT + b" " + sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(SnapshotRefused, match=r"\$.plan"):
        snapshots.read(path)


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path: Path, snapshot: Snapshot) -> None:
    """The folder became a file's name in between: the old snapshot stays, and no partial file is left."""
    path = tmp_path / "snapshot.json"
    snapshots.write(path, snapshot)
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "snapshot.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        snapshots.write(blocked / "snapshot.json", snapshot)
    assert [entry.name for entry in blocked.iterdir()] == ["snapshot.json"]
    assert snapshots.read(path) == snapshot
