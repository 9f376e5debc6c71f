"""How to run PostgreSQL's programs, which refuse to run as root.

Not root: as we are. Root: in a user namespace where our user has another number, so that no user is added, no folder
is opened to anybody, and every file stays ours. Where namespaces are off (containers, mostly): as an existing
unprivileged user, who then owns the data folder and must be able to reach it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from director.store.errors import EmbeddedPostgresFailed

MAPPED_ID = 65534
"""What we are inside the namespace. It must have a name in the user database, and `nobody` has one everywhere."""
USERS = ("postgres", "nobody")


class Identity(NamedTuple):
    """Who runs the programs: a command to put in front, and the owner of the files (None: ourselves)."""

    prefix: tuple[str, ...] = ()
    user: int | None = None
    group: int | None = None

    @property
    def owner(self) -> tuple[int, int]:
        """Who owns the data folder: (user id, group id)."""
        return (os.geteuid() if self.user is None else self.user, os.getegid() if self.group is None else self.group)

    def popen_options(self) -> dict[str, object]:
        """What `subprocess` needs to start a program so."""
        if self.user is None:
            return {}
        return {"user": self.user, "group": self.group, "extra_groups": []}


def choose_identity() -> Identity:
    """The first way that works here. Raises EmbeddedPostgresFailed with what to do instead."""
    if os.geteuid() != 0:
        return Identity()
    return _namespace() or _other_user()


def own(folder: Path, identity: Identity) -> None:
    """Give a folder and what is in it to whoever runs the programs; nothing to do as a rule."""
    user, group = identity.owner
    if folder.stat().st_uid == user:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, group, follow_symlinks=False)


def require_access(identity: Identity, folder: Path, program: Path) -> None:
    """Refuse early, in words, when the other user cannot reach what it needs."""
    if identity.user is None:
        return
    for path, right in ((program, "-x"), (folder, "-w")):
        command = ["test", right, str(path)]
        if subprocess.run(command, check=False, **identity.popen_options()).returncode != 0:  # type: ignore[call-overload]
            name = pwd.getpwuid(identity.user).pw_name
            raise EmbeddedPostgresFailed(
                f"user {name!r}, who runs the embedded Postgres because this is root without user namespaces, cannot "
                f"reach {path}: choose a data folder that it can enter, or set DIRECTOR_DATABASE_URL"
            )


def _namespace() -> Identity | None:
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    prefix = (unshare, "--user", f"--map-user={MAPPED_ID}", f"--map-group={MAPPED_ID}")
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Identity(prefix) if tried.returncode == 0 else None


def _other_user() -> Identity:
    for name in USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Identity((), entry.pw_uid, entry.pw_gid)
    raise EmbeddedPostgresFailed(
        "PostgreSQL does not run as root, there are no user namespaces here, and no user named "
        f"{' or '.join(USERS)}: run as another user, or set DIRECTOR_DATABASE_URL"
    )
