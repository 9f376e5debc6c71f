"""Why a name leads to its region: its route, as the running policy says, explained as the director explains any other.

A DNS query carries neither tenant nor model. The policy says which a name stands for, and the responder's own code
finds the name and keys the client's network, so that what is explained is what was asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from director.commands import client
from director.core.zones import ZoneIndex
from director.dns.networks import FAMILY_IPV4, FAMILY_IPV6, Network, Networks, Subnet
from director.dns.picked import depends_on_pick
from director.dns.routes import unanswerable
from director.dns.wire import Type, name_to_text
from director.dns.zone import Node, ZoneTree

if TYPE_CHECKING:
    from director.core.policy import Addresses, Policy


class Why(Struct):
    """What is known of an answer. `note`: why there is no explanation; None where it has been said already."""

    route: dict[str, Any] | None = None
    """The fields that `/explain` was asked."""
    explanation: dict[str, Any] | None = None
    regions: tuple[str, ...] = ()
    """The regions whose addresses came back."""
    note: str | None = None


def why(name: bytes, qtype: int, client_network: IPv4Network | IPv6Network, told: Iterable[str]) -> Why:
    """Explain the answer to a question. Never ends the command: who has an answer keeps it.

    `name`: wire form; `told`: the data of the answer's records as text.
    """
    if not os.environ.get("DIRECTOR_TOKEN"):
        return Why(note="to be told why, set DIRECTOR_TOKEN (scope read), and DIRECTOR_URL where it is not here")
    try:
        policy = _running_policy()
    except click.exceptions.Exit:
        return Why()
    if isinstance(policy, str):
        return Why(note=policy)
    node = _node(policy, name.lower(), qtype)
    if isinstance(node, str):
        return Why(note=node)
    asked = question(policy, node, network_of(policy, client_network))
    found = Why(asked, regions=named_regions(policy, told))
    try:
        found.explanation = client.post("/explain", asked)
    except click.exceptions.Exit:
        return found
    picked = found.explanation.get("region") if found.explanation is not None else None
    if found.regions and picked not in found.regions:
        found.note = f"the answer came from {', '.join(found.regions)}: another plan than the one explained"
    return found


def question(policy: Policy, node: Node, network: Network) -> dict[str, Any]:
    """What `/explain` is to be asked for a name that stands for a route."""
    assert node.route is not None
    route = node.route
    fields = {
        "tenant": route.tenant,
        "model": route.model,
        "version": route.version,
        "adapter": route.adapter,
        "client_zone": network.zone,
        "session": network.text,
        "exclude": unanswerable(policy, apex=node.apex),
    }
    return {field: value for field, value in fields.items() if value not in (None, ())}


def network_of(policy: Policy, client_network: IPv4Network | IPv6Network) -> Network:
    """The client's network as the responder keys it: /24 or /56 at most, and its client zone."""
    family = FAMILY_IPV4 if client_network.version == 4 else FAMILY_IPV6
    bits = client_network.prefixlen
    address = client_network.network_address.packed
    return Networks(ZoneIndex(policy)).of_subnet(Subnet(family, bits, address[: (bits + 7) // 8]), address)


def named_regions(policy: Policy, told: Iterable[str]) -> tuple[str, ...]:
    """The regions that an answer's records lead to; none where they lead elsewhere, or say nothing of a region."""
    data = {text.rstrip(".").lower() for text in told}
    return tuple(
        name
        for name, region in policy.regions.items()
        if data & {f'"region={name}"'.lower(), *_texts(region.addresses)}
    )


def _texts(addresses: Addresses) -> set[str]:
    texts = {str(ip_address(text)) for text in (*addresses.A, *addresses.AAAA)}
    return texts if texts or addresses.CNAME is None else {addresses.CNAME.rstrip(".").lower()}


def _running_policy() -> Policy | str:
    """The running director's policy, or why it cannot be had."""
    # Here and not above: the YAML reader takes a while to load, and nobody else in this command needs it.
    from director.policy import PolicyInvalid, load_files

    files = client.get("/policy")["files"]
    if not files:
        return "the director has no policy"
    try:
        return load_files(files).policy
    except PolicyInvalid as invalid:
        return f"the director's policy is not one of this version's: {invalid.problems[0]}"


def _node(policy: Policy, name: bytes, qtype: int) -> Node | str:
    """What stands at a lower-case name, if it takes a route to answer it; else why it takes none."""
    text = name_to_text(name)
    zone = ZoneTree(policy).zone_of(name, above=qtype == Type.DS)
    if zone is None:
        return f"{text} is in no zone of the policy: {', '.join(policy.dns) or 'it has none'}"
    node = zone.find(name)
    if node is None:
        return f"{text} does not exist in {zone.text}"
    if node.route is None:
        return f"{text} exists in {zone.text} and stands for no route"
    if not depends_on_pick(policy, node, qtype):
        return f"{text} stands for a route, and records of this type are the same whatever its region"
    return node
