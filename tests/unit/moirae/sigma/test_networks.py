"""Patterns of networks match the addresses of the network, and no others."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from moirae.sigma.networks import network_pattern

GROUPS = st.lists(st.sampled_from([0, 0, 0, 1, 0xAB, 0xFE80, 0xFFFF]), min_size=8, max_size=8)


def matches(network: str, address: str) -> bool:
    pattern = network_pattern(ip_network(network, strict=False))
    return re.search(pattern.replace(r"\z", r"\Z"), address) is not None


def test_ipv4_network_matches_whole_addresses_only() -> None:
    assert matches("10.0.0.0/9", "10.127.255.255")
    assert not matches("10.0.0.0/9", "10.128.0.0")
    assert not matches("10.0.0.0/8", "10.0.0.256")
    assert not matches("10.0.0.0/8", "10.0.0.1\n")
    assert matches("0.0.0.0/0", "255.1.1.1")
    assert not matches("0.0.0.0/0", "::1")


def test_ipv6_network_matches_short_and_long_spellings() -> None:
    for address in ("::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001"):
        assert matches("::1/128", address)
    assert matches("fe80::/10", "FEBF::1")
    assert not matches("fe80::/10", "fec0::1")
    assert matches("2001:0:1::/48", "2001:0:1:2::")
    assert not matches("::/0", "10.0.0.1")


@given(st.integers(0, 2**32 - 1), st.integers(0, 32), st.integers(0, 2**32 - 1))
def test_ipv4_pattern_is_the_network(base: int, length: int, flipped: int) -> None:
    network = ip_network((base, length), strict=False)
    for value in (base, base ^ (flipped & ((1 << (32 - length)) - 1)), base ^ flipped):
        address = IPv4Address(value)
        assert matches(str(network), str(address)) == (address in network)


@given(GROUPS, st.integers(0, 128), st.integers(0, 2**128 - 1))
def test_ipv6_pattern_is_the_network(groups: list[int], length: int, flipped: int) -> None:
    base = sum(group << (16 * index) for index, group in enumerate(groups))
    network = ip_network((base, length), strict=False)
    for value in (base, base ^ (flipped & ((1 << (128 - length)) - 1)), base ^ flipped):
        address = IPv6Address(value)
        for text in (str(address), address.exploded, address.exploded.upper()):
            assert matches(str(network), text) == (address in network)
