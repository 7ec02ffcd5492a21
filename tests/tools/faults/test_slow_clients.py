"""Tests of the clients that hold connections."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from lbdns_tools.faults.slow_clients import Connections, held


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as sock:
        sock.settimeout(60)
        yield sock


def test_connections_come_from_other_addresses_and_are_opened_again(listener: socket.socket) -> None:
    with contextlib.closing(Connections(listener.getsockname()[1], 5)) as clients:
        accepted = [listener.accept() for _ in range(5)]
        assert all(address[0] != "127.0.0.1" for _, address in accepted)
        with held(clients, b"begin", b"", 0.05):
            assert accepted[0][0].recv(5) == b"begin"
            accepted[1][0].close()
            again, _ = listener.accept()
            assert again.recv(5) == b"begin"
            assert clients.opened == 6
        for sock in (again, *(sock for sock, _ in accepted)):
            sock.close()


def test_bytes_dribble(listener: socket.socket) -> None:
    with contextlib.closing(Connections(listener.getsockname()[1], 1, is_local=True)) as clients:
        accepted, address = listener.accept()
        assert address[0] == "127.0.0.1"
        with accepted, held(clients, b"", b"abc", 0.01):
            received = b""
            while len(received) < 4:
                received += accepted.recv(1)
        assert received == b"abca"
