"""Tests of the relay between programs and a nats-server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from lbdns_tools.faults.stream_relay import StreamRelay
from lbdns_tools.faults.waiting import wait_for

LONGEST_S = 60.0


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that returns the first bytes of each connection, and then closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    if data := connection.recv(100_000):
                        connection.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def connect(relay: StreamRelay) -> closing[socket.socket]:
    return closing(socket.create_connection(("127.0.0.1", relay.port), LONGEST_S))


def test_bytes_and_the_end_pass(echo_port: int) -> None:
    with StreamRelay(echo_port) as relay, connect(relay) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        assert client.recv(100) == b""


def test_nothing_passes_while_the_relay_is_cut(echo_port: int) -> None:
    with StreamRelay(echo_port) as relay, connect(relay) as client:
        relay.is_cut = True
        client.sendall(b"hello")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        relay.is_cut = False
        client.settimeout(LONGEST_S)
        assert client.recv(100) == b"hello", "the bytes pass later"


def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with StreamRelay(port) as relay, connect(relay) as client:
        assert client.recv(100) == b""


def test_the_end_of_a_relay_ends_its_connections(echo_port: int) -> None:
    with StreamRelay(echo_port) as relay, connect(relay) as client:
        assert wait_for(lambda: relay._sockets, LONGEST_S)
        relay.__exit__()
        assert client.recv(100) == b""
