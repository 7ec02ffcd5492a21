"""Checks that the generated datagrams are reproducible, are indeed malformed, and include every kind."""

from __future__ import annotations

import random
import socket

import dns.exception
import dns.message
import pytest

from lbdns_tools.bench.dns.malformed_flood import KINDS, datagrams, send

BROKEN = ("cut short", "name too long", "odd label")  # no reader can take these for a query
MAX_UDP = 65_507  # bytes


def test_the_same_seed_gives_the_same() -> None:
    assert datagrams(7, 200) == datagrams(7, 200)
    assert datagrams(7, 200) != datagrams(8, 200)


def test_all_kinds_come_in_turn() -> None:
    found = datagrams(1, 20 * len(KINDS))
    assert all(len(one) <= MAX_UDP for one in found)
    assert all(len(set(found[number :: len(KINDS)])) > 1 for number in range(len(KINDS)))


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_called_broken_is_broken(kind: str) -> None:
    chance = random.Random(3)
    for _ in range(100):
        with pytest.raises((dns.exception.DNSException, ValueError)):
            dns.message.from_wire(KINDS[kind](chance))


def test_a_rate_is_kept() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sent = send(sock.getsockname()[1], seed=1, seconds=0.5, rate=400)
    assert 0 < sent <= 400 * 0.5 + 2 * 64
