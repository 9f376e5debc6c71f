"""What a policy must satisfy beyond the types of its values. One idea in each module, each a function of the draft.

A rule yields findings and raises nothing. It sees a draft from which unusable values are missing, and keeps quiet about
what it cannot judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.policy.rules import (
    references,
    relations,
    residency,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from director.policy.draft import Draft, Finding

RULES: tuple[Callable[[Draft], Iterator[Finding]], ...] = (
    references.check,
    residency.check,
    relations.check,
)
