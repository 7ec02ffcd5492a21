from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbdns_agent.metrics import network_traffic
from tests.agent.fixtures import host_with_kernel, proc_file


@pytest.mark.parametrize(
    ("kernel", "interfaces"),
    [
        ("2.6.32", {b"eth0": (3912099344, 812093440), b"eth1": (512, 0)}),  # eth0:3912099344 without a space
        ("3.10", {b"eth0": (512093445, 91220934)}),
        ("4.19", {b"ens3": (41209, 20934), b"docker0": (0, 0)}),
        ("5.10", {b"enp1s0": (91220934412, 41209344512), b"wg0": (5120, 2560)}),
        ("6.1", {b"eno1": (0, 0), b"bond0": (12093445120, 5120934412)}),
        ("6.18", {b"ifb0": (0, 0), b"ifb1": (0, 0), b"eth0": (3684624610, 5818154)}),
    ],
)
def test_parse(kernel: str, interfaces: dict[bytes, tuple[int, int]]) -> None:
    assert network_traffic.parse(proc_file(kernel, "net/dev")) == interfaces
    assert network_traffic.read(host_with_kernel(kernel)) == interfaces


def test_an_alias_keeps_its_colon() -> None:
    line = b"eth0:1: 10 0 0 0 0 0 0 0 20 0 0 0 0 0 0 0\n"
    assert network_traffic.parse(b"head\nhead\n" + line) == {b"eth0:1": (10, 20)}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, {b"a": (1, 2)}, {}),
        ({b"a": (0, 0), b"b": (10, 10)}, {b"a": (100, 50), b"b": (10, 30)}, {"net_rx": 50.0, "net_tx": 35.0}),
        ({b"a": (100, 100)}, {b"a": (5, 200), b"new": (10**9, 10**9)}, {"net_rx": 0.0, "net_tx": 50.0}),
        ({}, {}, {"net_rx": 0.0, "net_tx": 0.0}),
    ],
)
def test_values(
    before: network_traffic.Traffic | None, now: network_traffic.Traffic, expected: dict[str, float]
) -> None:
    assert network_traffic.values(before, now, 2.0) == expected


@given(st.binary() | st.text("eth0:lo 123456789\n").map(str.encode))
def test_anything_else_is_a_value_error(text: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert b"lo" not in network_traffic.parse(text)
