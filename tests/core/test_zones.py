"""Which zone an address belongs to, and how far an answer holds."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from director.core.policy import ClientZone, Policy
from director.core.zones import MEMO_MAX, ZoneIndex, canonical_network


def index(**zones: list[str]) -> ZoneIndex:
    return ZoneIndex(
        Policy(
            jurisdictions=(),
            regions={},
            models={},
            tenants={},
            objectives={},
            client_zones={name: ClientZone(networks=tuple(networks)) for name, networks in zones.items()},
        )
    )


NESTED = index(wide=["10.0.0.0/8", "2001:db8::/32"], narrow=["10.1.0.0/16", "2001:db8:1::/48"], host=["10.1.2.3/32"])


@pytest.mark.parametrize(
    ("address", "zone"),
    [
        ("10.200.0.1", "wide"),
        ("10.1.0.0", "narrow"),
        ("10.1.255.255", "narrow"),
        ("10.2.0.0", "wide"),
        ("10.1.2.3", "host"),
        ("10.1.2.4", "narrow"),
        ("9.255.255.255", "default"),
        ("11.0.0.0", "default"),
        ("0.0.0.0", "default"),
        ("255.255.255.255", "default"),
        ("2001:db8:2::1", "wide"),
        ("2001:db8:1::1", "narrow"),
        ("2001:db9::", "default"),
        ("::ffff:10.1.2.3", "host"),
        ("::ffff:a01:204", "narrow"),
        ("::", "default"),
    ],
)
def test_the_longest_prefix_wins(address: str, zone: str) -> None:
    """Nested prefixes, both families, mapped addresses, and the edges of each prefix."""
    assert NESTED.zone_of(address) == zone
    assert NESTED.zone_of(address) == zone  # from the memo


@pytest.mark.parametrize("text", ["", "10.1.2", "10.1.2.3.4", "010.1.2.3", "10.1.2.3/32", "host", "2001:::1"])
def test_what_is_no_address_is_an_error(text: str) -> None:
    """A transport must refuse it: to call it a client in no zone would hide the mistake."""
    with pytest.raises(ValueError, match="does not appear"):
        NESTED.zone_of(text)


@pytest.mark.parametrize(
    ("address", "zone", "length"),
    [
        ("10.200.0.1", "wide", 9),  # 10.128.0.0/9 holds nothing narrower
        ("10.2.0.1", "wide", 15),
        ("10.0.0.1", "wide", 16),  # its neighbour 10.1.0.0/16 is another zone
        ("10.1.2.3", "host", 32),
        ("10.1.2.2", "narrow", 32),
        ("10.1.128.1", "narrow", 17),
        ("192.0.2.1", "default", 1),
        ("11.0.0.1", "default", 8),
    ],
)
def test_an_answer_holds_for_the_widest_block_of_one_zone(address: str, zone: str, length: int) -> None:
    """The scope excludes every narrower prefix that would be answered otherwise."""
    assert NESTED.match(ip_address(address).packed, 4) == (zone, length)


def test_without_networks_one_answer_holds_for_everybody() -> None:
    """Scope 0: nothing depends on the client."""
    assert index().match(ip_address("192.0.2.1").packed, 4) == ("default", 0)
    assert index().match(ip_address("2001:db8::").packed, 6) == ("default", 0)


def test_neighbouring_networks_of_one_zone_are_one() -> None:
    """Two halves of a /24 answer for the whole of it."""
    halves = index(a=["203.0.113.0/25", "203.0.113.128/25"])
    assert halves.match(ip_address("203.0.113.9").packed, 4) == ("a", 24)


def test_a_client_network_that_spans_zones_is_answered_by_what_holds_all_of_it() -> None:
    """10.1.2.0/24 contains the zone `host`, yet is not in it; the scope says that more bits would help."""
    assert NESTED.match(ip_address("10.1.2.0").packed, 4, 24) == ("narrow", 31)
    assert NESTED.zone_of_network("10.1.2.0/24") == "narrow"
    assert NESTED.zone_of_network("10.0.0.0/7") == "default"
    assert index(host=["10.1.2.0/32"]).match(ip_address("10.1.2.0").packed, 4, 24) == ("default", 32)


def test_mapped_networks_are_ipv4() -> None:
    """A client network given as ::ffff:0:0/96 and longer is matched as IPv4; its scope counts the 96 bits."""
    assert canonical_network("::ffff:10.0.0.0/104") == ip_network("10.0.0.0/8")
    assert NESTED.match(IPv6Address("::ffff:10.1.2.3").packed, 6) == ("host", 128)
    assert NESTED.match(IPv6Address("::ffff:10.200.0.0").packed, 6, 120) == ("wide", 96 + 9)


def test_the_memo_is_bounded() -> None:
    """Addresses beyond the bound start a new memo and are answered all the same."""
    zones = index(a=["10.0.0.0/8"])
    for number in range(MEMO_MAX + 10):
        zones.zone_of(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(zones._memo) <= MEMO_MAX
    assert zones.zone_of("10.0.0.0") == "a"


SMALL_NETWORKS = st.dictionaries(
    st.tuples(st.integers(0, 6), st.integers(0, 63)).map(
        lambda pair: ip_network(
            (0xCB007100 | (pair[1] >> (6 - pair[0]) << (6 - pair[0]) if pair[0] else 0), 26 + pair[0])
        )
    ),
    st.sampled_from(["a", "b", "c"]),
    max_size=12,
)


def longest(networks: dict[IPv4Network, str], block: IPv4Network) -> str:
    holding = [network for network in networks if block.subnet_of(network)]
    return networks[max(holding, key=lambda network: network.prefixlen)] if holding else "default"


@settings(deadline=None)
@given(SMALL_NETWORKS, st.integers(0, 63), st.integers(26, 32))
def test_agrees_with_the_plain_rule(networks: dict[IPv4Network, str], host: int, source_bits: int) -> None:
    """Invariant: zones and scopes equal what comparing with every prefix gives, address by address."""
    zones: dict[str, list[str]] = {}
    for network, zone in networks.items():
        zones.setdefault(zone, []).append(str(network))
    tested = index(**zones)
    address = ip_address(0xCB007100 + host)
    block = ip_network((int(address) >> (32 - source_bits) << (32 - source_bits), source_bits))
    zone, scope = tested.match(block.network_address.packed, 4, source_bits)
    every = {longest(networks, ip_network(one)) for one in block}
    assert zone == (every.pop() if len(every) == 1 else longest(networks, block))
    assert tested.zone_of(str(address)) == longest(networks, ip_network(address))

    def one_zone(length: int) -> bool:
        wider = ip_network((int(block.network_address) >> (32 - length) << (32 - length), length))
        inside = [int(wider.network_address) + step for step in range(wider.num_addresses)] if length >= 26 else []
        return len({longest(networks, ip_network(ip_address(number))) for number in inside}) == 1

    if scope >= 26:
        assert one_zone(scope)
    if scope > 26:
        assert not one_zone(scope - 1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 128)), max_size=6), st.integers(0, 2**128 - 1))
def test_ipv6_agrees_with_the_plain_rule(prefixes: list[tuple[int, int]], address: int) -> None:
    """Invariant: the longest of the prefixes that hold an address names its zone, at any length from 0 to 128."""
    networks = {
        IPv6Network((number >> (128 - length) << (128 - length), length)): f"z{at}"
        for at, (number, length) in enumerate(prefixes)
    }
    tested = index(**{zone: [str(network)] for network, zone in networks.items()})
    for number in (address, *(first for first, _ in prefixes)):
        holding = [network for network in networks if IPv6Address(number) in network]
        wanted = networks[max(holding, key=lambda network: network.prefixlen)] if holding else "default"
        if number >> 32 != 0xFFFF:
            assert tested.match(IPv6Address(number).packed, 6)[0] == wanted
