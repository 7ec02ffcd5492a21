"""Compares the table of networks with a plain search for the longest prefix, and checks its scopes and errors."""

from __future__ import annotations

import ipaddress
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns.model.site_networks import Address, Network, SiteMatch, SiteOrder, build_site_networks, parse_site_networks
from lbdns_shared.errors import ConfigError

SITES = ("ams", "fra", "nyc")
DEFAULT = ("fra", "ams", "nyc")

TABLE = """\
# Europe
10.0.0.0/8      ams fra
10.1.0.0/16     fra             # within the line before
10.1.2.3        nyc
192.0.2.0/24    nyc fra ams

2001:db8::/32   ams
2001:db8:8000::/33 fra
"""


@pytest.mark.parametrize(
    ("address", "order", "scope"),
    [
        ("10.200.0.1", ("ams", "fra"), 9),  # 10.0.0.0/9 has other clients
        ("10.0.0.1", ("ams", "fra"), 16),
        ("10.1.200.1", ("fra",), 17),
        ("10.1.2.2", ("fra",), 32),
        ("10.1.2.3", ("nyc",), 32),
        ("192.0.2.77", ("nyc", "fra", "ams"), 24),
        ("192.0.3.0", DEFAULT, 24),
        ("240.0.0.1", DEFAULT, 3),  # 192.0.0.0/3 contains 192.0.2.0/24
        ("2001:db8::1", ("ams",), 33),
        ("2001:db8:ffff::1", ("fra",), 33),
    ],
)
def test_the_longest_network_decides(address: str, order: SiteOrder, scope: int) -> None:
    assert parse_site_networks(TABLE, "nets", SITES, DEFAULT).match(ipaddress.ip_address(address)) == SiteMatch(
        order, scope
    )


def test_without_networks_all_clients_have_the_default_order() -> None:
    table = build_site_networks({}, DEFAULT)
    for address in ("0.0.0.0", "255.255.255.255", "::", "2001:db8::1"):
        assert table.match(ipaddress.ip_address(address)) == SiteMatch(DEFAULT, 0)


def test_networks_with_the_same_order_count_as_one() -> None:
    nets = parse_site_networks("10.0.0.0/9 ams\n10.128.0.0/9 ams\n10.3.0.0/16 ams\n", "nets", SITES, DEFAULT)
    assert nets.match(ipaddress.ip_address("10.3.4.5")) == SiteMatch(("ams",), 8)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("10.0.0.0/33 ams", "is not a network"),
        ("everybody ams", "is not a network"),
        ("10.0.0.1/8 ams", "has bits set beyond its prefix; write 10.0.0.0/8"),
        ("10.0.0.0/8", "no site follows"),
        ("10.0.0.0/8 asm", "there is no site 'asm'.*ams"),
        ("10.0.0.0/8 ams fra ams", "site 'ams' appears twice"),
        ("192.0.2.0/24 ams", "already listed on line 1"),
    ],
)
def test_an_error_names_the_file_and_the_line(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^nets:3: .*{message}"):
        parse_site_networks(f"192.0.2.0/24 nyc\n\n{line}\n", "nets", SITES, DEFAULT)


def test_all_errors_are_listed() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_site_networks("x ams\n10.0.0.0/8 ams\ny ams\n", "nets", SITES, DEFAULT)
    assert [line.split(" ")[0] for line in str(caught.value).splitlines()] == ["nets:1:", "nets:3:"]


# Networks that often contain each other: few distinct bits, at the start, the middle and the end of the address space


@st.composite
def networks(draw: st.DrawFn) -> Network:
    bits = draw(st.sampled_from([32, 128]))
    length = draw(st.integers(0, 6) | st.integers(0, bits))
    high = draw(st.integers(0, 63)) << (bits - 6) | draw(st.integers(0, 3))
    number = high >> (bits - length) << (bits - length)
    kind: type[Network] = ipaddress.IPv4Network if bits == 32 else ipaddress.IPv6Network
    return kind((number, length))


TABLES = st.dictionaries(networks(), st.permutations(SITES).map(tuple), max_size=12)


def longest(nets: dict[Network, SiteOrder], address: Address) -> SiteOrder:
    found = [network for network in nets if network.version == address.version and address in network]
    return nets[max(found, key=lambda network: network.prefixlen)] if found else DEFAULT


def boundaries(nets: dict[Network, SiteOrder], version: int) -> set[Address]:
    """Return the first and last address of each network, and their neighbours; nothing changes between these."""
    kind, bits = (ipaddress.IPv4Address, 32) if version == 4 else (ipaddress.IPv6Address, 128)
    edges = {0, (1 << bits) - 1}
    for network in nets:
        if network.version == version:
            first, last = int(network.network_address), int(network.broadcast_address)
            edges |= {first - 1, first, last, last + 1}
    return {kind(edge) for edge in edges if 0 <= edge < 1 << bits}


@given(TABLES, st.sampled_from([4, 6]), st.data())
def test_it_agrees_with_a_plain_search_and_its_scope_is_right(
    nets: dict[Network, SiteOrder], version: Literal[4, 6], data: st.DataObject
) -> None:
    table = build_site_networks(nets, DEFAULT)
    edges = boundaries(nets, version)
    address = data.draw(st.sampled_from(sorted(edges, key=int)) | st.ip_addresses(v=version))
    match = table.match(address)
    assert match.order == longest(nets, address)
    scope = ipaddress.ip_network(f"{address}/{match.scope}", strict=False)
    within = [edge for edge in edges if edge in scope] + [scope.network_address, scope.broadcast_address]
    assert {longest(nets, other) for other in within} == {match.order}
    if match.scope:
        wider = scope.supernet()
        around = [edge for edge in edges if edge in wider] + [wider.network_address, wider.broadcast_address]
        assert len({longest(nets, other) for other in around}) > 1, "a shorter scope would do"
