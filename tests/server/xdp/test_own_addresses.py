"""Tests of the addresses for which the kernel may answer."""

from __future__ import annotations

import socket

import pytest

from lbdns.server.xdp.own_addresses import InterfaceAddresses, published_addresses, read_interfaces
from lbdns_shared.endpoint import parse_listen

MAC = bytes(range(6))
ETH = InterfaceAddresses(2, MAC, ["192.0.2.1", "192.0.2.2", "2001:db8::1", "fe80::1"])
OTHER = InterfaceAddresses(3, MAC, ["198.51.100.1"])
TUNNEL = InterfaceAddresses(4, b"", ["192.0.2.9"])

CASES = {
    "IPv4 wildcard": (["0.0.0.0:53"], ["192.0.2.1", "192.0.2.2", "198.51.100.1"]),
    "IPv6 wildcard": (["[::]:53"], ["2001:db8::1", "fe80::1"]),
    "one address": (["192.0.2.2"], ["192.0.2.2"]),
    "another spelling": (["[2001:db8:0::1]:53"], ["2001:db8::1"]),
    "an address with its interface": (["[fe80::1%eth0]:53"], ["fe80::1"]),
    "an address of no interface": (["203.0.113.1", "127.0.0.1"], []),
    "the same address twice": (["192.0.2.1", "0.0.0.0:53"], ["192.0.2.1", "192.0.2.2", "198.51.100.1"]),
}


@pytest.mark.parametrize(("listen", "expected"), CASES.values(), ids=CASES)
def test_addresses(listen: list[str], expected: list[str]) -> None:
    endpoints = [parse_listen(text, 53) for text in listen]
    found = published_addresses(endpoints, [ETH, OTHER, TUNNEL])
    assert sorted(each.address for each in found) == sorted(expected)
    assert {each.port for each in found} <= {53}
    assert all(each.mac == MAC for each in found)
    assert all(each.interface == (3 if each.address == "198.51.100.1" else 2) for each in found)


def test_an_address_with_two_ports() -> None:
    found = published_addresses([parse_listen(text, 53) for text in ("192.0.2.1", "192.0.2.1:5353")], [ETH])
    assert {(each.address, each.port) for each in found} == {("192.0.2.1", 53), ("192.0.2.1", 5353)}


def test_the_interfaces_of_this_machine() -> None:
    (loopback,) = read_interfaces(["lo", "none0"])
    assert loopback.number == socket.if_nametoindex("lo")
    assert "127.0.0.1" in loopback.addresses
