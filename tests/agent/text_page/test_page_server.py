"""The server of the text page: real clients, good and bad, in the agent's own loop."""

from __future__ import annotations

import contextlib
import socket
import statistics
import time
from collections.abc import Iterator

import pytest

from lbdns_agent.limited_listener import open_listener
from lbdns_agent.non_blocking_sensors import READABLE
from lbdns_agent.text_page import page_server
from lbdns_agent.text_page.page_request import LARGEST_REQUEST
from lbdns_agent.text_page.page_server import MOST_OPEN, MOST_READS, TIME_LIMIT, TextPageServer
from lbdns_shared.endpoint import Endpoint
from tests.agent.service_loop import ServiceLoop
from tests.agent.waiting import PATIENCE, until

REQUEST = b"GET / HTTP/1.1\r\n\r\n"


class ServedPage:
    """A server whose response can be replaced."""

    def __init__(self) -> None:
        self.response = b"figures"
        self.listener = open_listener(Endpoint("127.0.0.1", 0), "--serve")
        self.server = TextPageServer(self.listener, lambda _: self.response)
        self.loop = ServiceLoop(self.server, self.listener.getsockname()[1])

    @property
    def open(self) -> int:
        return len(self.server._clients)

    def stop(self) -> None:
        self.loop.stop()
        self.server.close()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedPage]:
    monkeypatch.setattr(page_server, "MOST_PER_SECOND", 1000)
    found = ServedPage()
    yield found
    found.stop()


def test_every_client_receives_the_response(served: ServedPage) -> None:
    assert [served.loop.ask(REQUEST) for _ in range(20)] == [b"figures"] * 20
    until(lambda: not served.open)


def test_a_request_may_arrive_in_parts(served: ServedPage) -> None:
    with served.loop.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(REQUEST[:5])
        time.sleep(0.05)
        client.sendall(REQUEST[5:])
        assert client.recv(100) == b"figures"


def test_silent_clients_delay_nothing_and_are_closed(served: ServedPage) -> None:
    clients = [served.loop.connect() for _ in range(2 * MOST_OPEN)]
    assert served.loop.ask(REQUEST) == b"figures", "a new client displaces the oldest one"
    assert served.open <= MOST_OPEN
    until(lambda: not served.open)
    for client in clients:
        client.close()
    assert statistics.median(served.loop.late) < TIME_LIMIT / 4


def test_a_slow_reader_is_dropped(served: ServedPage) -> None:
    served.response = b"x" * 2**24  # more than the kernel's buffers hold
    with served.loop.connect() as client:
        client.sendall(REQUEST)
        until(lambda: served.open)
        began, polls = time.monotonic(), served.loop.polls
        until(lambda: not served.open)
        assert served.loop.polls - polls < 200 * (time.monotonic() - began + 1), "the loop does not spin meanwhile"
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(2**20):
                received += len(part)
        assert received < len(served.response)
    assert statistics.median(served.loop.late) < TIME_LIMIT / 4


def test_a_patient_reader_gets_a_long_response(served: ServedPage) -> None:
    served.response = b"x" * 2**22
    assert served.loop.ask(REQUEST) == served.response


def test_a_request_without_an_end_is_refused(served: ServedPage) -> None:
    with served.loop.connect() as client:
        client.sendall(b"x" * LARGEST_REQUEST)
        assert client.recv(1000).startswith(b"HTTP/1.1 431 ")
    until(lambda: not served.open)


def test_a_request_must_arrive_in_few_parts() -> None:
    """Each part wakes the agent: a client could keep it busy with single bytes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        client = page_server._Client(ours, time.monotonic() + PATIENCE, lambda _: b"figures")
        for _ in range(MOST_READS):
            assert client.events == READABLE
            theirs.sendall(b"x")
            assert client.advance()
        assert theirs.recv(1000).startswith(b"HTTP/1.1 431 ")
        theirs.close()
        assert not client.advance()


def test_a_client_that_sends_much_is_cut_off(served: ServedPage) -> None:
    with served.loop.connect() as client:
        client.settimeout(PATIENCE)
        with pytest.raises(OSError, match=r"reset|pipe"):
            client.sendall(b"x" * 2**28)
    assert served.loop.ask(REQUEST) == b"figures"


def test_the_rate_of_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "MOST_PER_SECOND", 5)
    served = ServedPage()
    try:
        began = time.monotonic()
        assert [served.loop.ask(REQUEST) for _ in range(11)] == [b"figures"] * 11
        assert time.monotonic() - began >= 1.5
    finally:
        served.stop()
