"""What a policy must satisfy beyond the types of its values. One idea in each module, each a function of the draft.

A rule yields findings and raises nothing. It sees a draft from which unusable values are missing, and keeps quiet about
what it cannot judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from director.policy.rules import (
    addresses,
    distances,
    dns_names,
    dns_routes,
    dns_zones,
    geoip,
    networks,
    references,
    relations,
    residency,
    shared_addresses,
    traps,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from director.policy.draft import Draft, Finding

RULES: tuple[Callable[[Draft], Iterator[Finding]], ...] = (
    references.check,
    residency.check,
    relations.check,
    distances.check,
    networks.check,
    geoip.check,
    addresses.check,
    shared_addresses.check,
    dns_zones.check,
    dns_names.check,
    dns_routes.check,
    traps.check,
)
