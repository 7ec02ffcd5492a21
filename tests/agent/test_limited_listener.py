"""The agent's listening sockets: addresses, errors, and the limit on connections per second."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from lbdns_agent.limited_listener import LimitedListener, open_listener
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from tests.agent.waiting import PATIENCE
from tests.needs import needs

LOOPBACK = Endpoint("127.0.0.1", 0)


def test_a_port_that_is_taken_is_an_error() -> None:
    with open_listener(LOOPBACK, "--serve") as listener:
        port = listener.getsockname()[1]
        with pytest.raises(LbdnsError, match=rf"--serve: cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
            open_listener(Endpoint("127.0.0.1", port), "--serve")


@needs(ipv6=True)
def test_without_an_address_it_listens_on_ipv4_and_ipv6() -> None:
    with open_listener(Endpoint("", 0), "--agent-check") as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=PATIENCE).close()


def test_a_second_has_a_limited_number_of_connections() -> None:
    with open_listener(LOOPBACK, "--serve") as opened, contextlib.ExitStack() as stack:
        listener = LimitedListener(opened, 2)
        for _ in range(3):
            stack.enter_context(socket.create_connection(opened.getsockname(), timeout=PATIENCE))
        assert [wait.fd for wait in listener.waits()] == [opened.fileno()]
        assert listener.deadline() == float("inf")
        now = time.monotonic() + 60  # whatever the machine does, the second isn't over
        for _ in range(2):
            connection = listener.accept(now)
            assert connection is not None
            assert not connection.getblocking()
            stack.enter_context(connection)
        assert list(listener.waits()) == []
        assert listener.deadline() == now + 1
        third = listener.accept(now + 1)
        assert third is not None
        stack.enter_context(third)
        assert listener.accept(now + 1) is None, "nobody else waits"


def test_failures_count_too() -> None:
    with open_listener(LOOPBACK, "--serve") as opened:
        listener = LimitedListener(opened, 1)
        now = time.monotonic() + 60
        assert listener.accept(now) is None
        assert list(listener.waits()) == [], "without a free descriptor, accepting would fail again at once"
