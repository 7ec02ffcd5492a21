from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.gateway.default_route import Gateway, find_gateway, parse_ipv4, parse_ipv6
from tests.agent.fixtures import PROC, proc_file


@pytest.mark.parametrize(
    ("kernel", "gateway"),
    [
        ("2.6.32", Gateway("10.0.2.1", "eth0")),
        ("3.10", Gateway("192.168.0.1", "eth0")),
        ("4.19", Gateway("172.18.0.1", "ens3")),  # the wireless one has a higher metric
        ("5.10", None),  # a tunnel without a gateway
        ("6.1", None),
        ("6.18", Gateway("192.0.2.1", "eth0")),
    ],
)
def test_ipv4(kernel: str, gateway: Gateway | None) -> None:
    assert parse_ipv4(proc_file(kernel, "net/route")) == gateway


@pytest.mark.parametrize(
    ("kernel", "gateway"),
    [
        ("2.6.32", None),
        ("4.19", Gateway("fe80::211:22ff:fe33:4455", "ens3")),
        ("5.10", Gateway("2001:db8::1", "enp1s0")),  # the lower metric
        ("6.1", None),  # a reject route
        ("6.18", Gateway("fd00::1", "eth0")),
    ],
)
def test_ipv6(kernel: str, gateway: Gateway | None) -> None:
    assert parse_ipv6(proc_file(kernel, "net/ipv6_route")) == gateway


@pytest.mark.parametrize(
    ("kernel", "gateway"),
    [
        ("4.19", Gateway("172.18.0.1", "ens3")),  # IPv4 first
        ("5.10", Gateway("2001:db8::1", "enp1s0")),
        ("6.1", None),
    ],
)
def test_find(kernel: str, gateway: Gateway | None) -> None:
    assert find_gateway(str(PROC / kernel)) == gateway


def test_a_kernel_without_networking(tmp_path: Path) -> None:
    assert find_gateway(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("gateway", "shown", "family"),
    [
        (Gateway("192.0.2.1"), "192.0.2.1", socket.AF_INET),
        (Gateway("fe80::1", "eth0"), "fe80::1%eth0", socket.AF_INET6),
    ],
)
def test_as_text(gateway: Gateway, shown: str, family: int) -> None:
    assert (str(gateway), gateway.family) == (shown, family)


@given(st.binary() | st.text("0123456789ABCDEFeth \t\n").map(str.encode))
def test_lines_that_are_no_routes_are_passed_over(text: bytes) -> None:
    for found in (parse_ipv4(b"Iface\n" + text), parse_ipv6(text)):
        assert found is None or found.address


def test_nonsense_beside_a_route_does_not_hide_it() -> None:
    lines = proc_file("3.10", "net/route").splitlines()
    text = b"\n".join([lines[0], b"eth9 zz", b"eth9\t00000000\t-1\t0003\t0\t0\t0\t00000000", *lines[1:]])
    assert parse_ipv4(text) == Gateway("192.168.0.1", "eth0")
