"""Tests of the network that counts as one client."""

from __future__ import annotations

import pytest

from lbdns.sockets.client_network import client_network, plain_text


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%lo", "fe80::/64"),
        ("", ""),
        ("no address", ""),
    ],
)
def test_client_network(address: str, network: str) -> None:
    assert client_network(address) == network


@pytest.mark.parametrize(
    ("text", "plain"),
    [("::ffff:10.0.0.1", "10.0.0.1"), ("FE80::1%lo", "fe80::1"), ("10.0.0.1", "10.0.0.1"), ("x", "x")],
)
def test_plain_text(text: str, plain: str) -> None:
    assert plain_text(text) == plain
