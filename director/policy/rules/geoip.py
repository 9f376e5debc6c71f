"""Country look-ups need a database file and something to read it with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from director.policy.draft import Finding
from director.policy.problem import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from director.policy.draft import Draft


def check(draft: Draft) -> Iterator[Finding]:
    """The file is there. Reading it is refused in words rather than ignored in silence."""
    path = draft.policy.geoip
    if path is None:
        return
    if not Path(path).is_file():
        yield Finding(("geoip",), f"there is no file {shown(path)}", "the path of an mmdb file, or null")
        return
    yield Finding(
        ("geoip",), "geoip needs a reader of mmdb files, which this version has not", "null; zones by networks"
    )
