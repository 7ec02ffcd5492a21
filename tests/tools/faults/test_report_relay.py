"""Tests of the relay between agents and collector."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from random import Random

import pytest

from lbdns_tools.faults.report_relay import ReportRelay
from lbdns_tools.faults.waiting import wait_for

COUNT = 100  # twice as many small datagrams fit into a socket's receive buffer


@pytest.fixture
def collector() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield sock


def relayed(collector: socket.socket, relay: ReportRelay, expected: int) -> list[bytes]:
    found: list[bytes] = []

    def receive() -> bool:
        try:
            while True:
                found.append(collector.recv(2048))
        except BlockingIOError:
            return len(found) + relay.dropped >= expected

    with relay, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        for number in range(COUNT):
            agent.sendto(b"%d" % number, ("127.0.0.1", relay.port))
            wait_for(lambda sent=number: len(relay.kept) > sent, 60)  # type: ignore[misc]
        assert wait_for(receive, 60)
    return found


def test_everything_in_order(collector: socket.socket) -> None:
    relay = ReportRelay(collector.getsockname()[1], Random(1))
    assert relayed(collector, relay, COUNT) == [b"%d" % number for number in range(COUNT)]


def test_loss(collector: socket.socket) -> None:
    relay = ReportRelay(collector.getsockname()[1], Random(1))
    relay.loss = 0.5
    found = relayed(collector, relay, COUNT)
    assert 0.3 * COUNT < len(found) < 0.7 * COUNT
    assert len(relay.kept) == COUNT


def test_duplicates(collector: socket.socket) -> None:
    relay = ReportRelay(collector.getsockname()[1], Random(1))
    relay.duplicates = 1.0
    found = relayed(collector, relay, 2 * COUNT)
    assert sorted(found) == sorted(2 * [b"%d" % number for number in range(COUNT)])


def test_delay_changes_the_order(collector: socket.socket) -> None:
    relay = ReportRelay(collector.getsockname()[1], Random(1))
    relay.delay = 0.3
    found = relayed(collector, relay, COUNT)
    assert sorted(found) == sorted(b"%d" % number for number in range(COUNT))
    assert found != [b"%d" % number for number in range(COUNT)]
