"""Tests of the order in which a client uses the sites of a pool, and of the scope of its answers."""

from __future__ import annotations

import pytest

from lbdns.answering.client_orders import ClientOrders
from lbdns.model.pool_sites import PoolSites
from lbdns.model.site_networks import parse_site_networks

TABLE = "10.2.0.0/16 par\n10.2.3.0/24 ber\n2001:db8::/32 par\n"
BER, PAR = 0, 1


@pytest.fixture(name="orders")
def _orders() -> ClientOrders:
    networks = parse_site_networks(TABLE, "networks", ("ber", "par"), ("ber", "par"))
    return ClientOrders(PoolSites({"ber": [0], "par": [1]}, networks.for_sites(("ber", "par"))))


@pytest.mark.parametrize(
    ("host", "order"),
    [
        ("10.1.0.1", BER),
        ("10.2.0.1", PAR),
        ("10.2.3.1", BER),
        ("::ffff:10.2.0.1", PAR),
        ("2001:db8::1", PAR),
        ("fe80::1%eth0", BER),
    ],
)
def test_without_a_subnet_the_address_decides(orders: ClientOrders, host: str, order: int) -> None:
    assert orders.find(host, b"") == (order, b"\0")


@pytest.mark.parametrize(
    ("subnet", "order", "scope"),
    [
        (b"\0\1\x18\0\x0a\2\4", PAR, 22),
        (b"\0\1\x10\0\x0a\2", PAR, 23),  # longer than the source prefix: within it, 10.2.3.0/24 has other clients
        (b"\0\1\x18\0\x0a\2\3", BER, 24),
        (b"\0\1\x08\0\x0b", BER, 8),
        (b"\0\2\x20\0\x20\1\x0d\xb8", PAR, 32),
        (b"\0\2\x01\0\x80", BER, 1),
    ],
)
def test_a_subnet_decides_whatever_the_address_is(orders: ClientOrders, subnet: bytes, order: int, scope: int) -> None:
    for host in ("10.1.0.1", "10.2.0.1", "2001:db8::1"):
        assert orders.find(host, subnet) == (order, bytes((scope,)))


@pytest.mark.parametrize("family", [0, 1, 2, 3, 258])
def test_a_subnet_without_an_address_must_not_be_used(orders: ClientOrders, family: int) -> None:
    subnet = family.to_bytes(2, "big") + b"\0\0"
    assert orders.find("10.2.0.1", subnet) == (PAR, b"\0")
    assert orders.find("10.1.0.1", subnet) == (BER, b"\0")
