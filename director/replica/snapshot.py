"""The last good state on disk, so that a replica answers although it starts while the database is away.

One file for each serving process: a header line with the checksum of everything after it, then JSON. It is written to
a neighbour and renamed over the old one, so that a crash leaves either whole; it is readable by its owner alone,
because it holds the keys that sign affinity tokens. A file that does not check out is refused and left where it is:
a guess about where data may be processed is worse than "not ready".
"""

from __future__ import annotations

import contextlib
import os
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from director.core.affinity import KeyRing
from director.core.plan import Plan
from director.core.policy import Policy
from director.store.tokens import TokenRecord

FORMAT = b"region-director-snapshot 1"


class Snapshot(Struct, frozen=True):
    """Everything that deciding needs. Times are epoch ms of the database's clock."""

    plan: Plan
    policy: Policy
    policy_version: int
    keyring: KeyRing
    tokens: tuple[TokenRecord, ...]
    heartbeat_at_ms: int
    """The planner's last sign of life for this plan."""


class SnapshotRefused(Exception):
    """The file is there and cannot be trusted; the message says why."""


def write(path: Path, snapshot: Snapshot) -> None:
    """Replace the file in one step. Raises OSError, and leaves the old file whole."""
    body = msgspec.json.encode(snapshot)
    header = FORMAT + b" " + sha256(body).hexdigest().encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(header)
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def read(path: Path) -> Snapshot | None:
    """The snapshot, or None where there is no file. Raises SnapshotRefused for a file that does not check out."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SnapshotRefused(f"{path}: cannot be read: {error.strerror}") from error
    header, newline, body = content.partition(b"\n")
    if not newline or not header.startswith(FORMAT + b" "):
        raise SnapshotRefused(f"{path}: not a snapshot of this format; expected it to begin with {FORMAT.decode()!r}")
    if header.removeprefix(FORMAT + b" ").decode("ascii", "replace") != sha256(body).hexdigest():
        raise SnapshotRefused(f"{path}: its checksum does not match its content")
    try:
        return msgspec.json.decode(body, type=Snapshot)
    except (msgspec.DecodeError, ValueError) as error:
        raise SnapshotRefused(f"{path}: its content does not fit this release: {error}") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
