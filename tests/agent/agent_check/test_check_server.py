"""The server of agent checks: real clients, good and bad, in the agent's own loop."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import pytest

from lbdns_agent.agent_check import check_server
from lbdns_agent.agent_check.check_server import LINGER, MOST_OPEN, AgentCheckServer
from lbdns_agent.limited_listener import open_listener
from lbdns_shared.endpoint import Endpoint
from tests.agent.service_loop import ServiceLoop
from tests.agent.waiting import PATIENCE, until


class Checks:
    """A server that answers 75% in a loop like the agent's."""

    def __init__(self) -> None:
        self.listener = open_listener(Endpoint("127.0.0.1", 0), "--agent-check")
        self.server = AgentCheckServer(self.listener, lambda: b"75%\n")
        self.loop = ServiceLoop(self.server, self.listener.getsockname()[1])

    def stop(self) -> None:
        self.loop.stop()
        self.server.close()


@pytest.fixture
def checks() -> Iterator[Checks]:
    found = Checks()
    yield found
    found.stop()


def test_every_client_receives_the_line(checks: Checks) -> None:
    assert [checks.loop.ask() for _ in range(20)] == [b"75%\n"] * 20
    assert checks.loop.ask(b"state?\n") == b"75%\n", "HAProxy may send a line first (agent-send)"
    assert checks.server.asked_at == pytest.approx(time.monotonic(), abs=PATIENCE)


def test_silent_clients_delay_nothing_and_are_closed(checks: Checks) -> None:
    clients = [checks.loop.connect() for _ in range(2 * MOST_OPEN)]
    for client in clients:
        assert client.recv(100) == b"75%\n"
    assert checks.loop.ask() == b"75%\n"
    assert len(checks.server._open) <= MOST_OPEN + 1
    until(lambda: not checks.server._open)
    for client in clients:
        client.close()
    assert statistics.median(checks.loop.late) < LINGER / 2


def test_the_rate_of_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_server, "MOST_PER_SECOND", 5)
    checks = Checks()
    try:
        began = time.monotonic()
        assert [checks.loop.ask() for _ in range(11)] == [b"75%\n"] * 11, "the kernel keeps the others waiting"
        assert time.monotonic() - began >= 1.5
        before, began = checks.loop.polls, time.monotonic()
        time.sleep(0.2)
        assert checks.loop.polls - before < 100 * (time.monotonic() - began), "the loop does not spin while it pauses"
    finally:
        checks.stop()


def test_a_client_that_sends_much_is_cut_off(checks: Checks) -> None:
    with checks.loop.connect() as client:
        client.settimeout(PATIENCE)
        with pytest.raises(OSError, match=r"reset|pipe"):
            client.sendall(b"x" * 2**28)
    assert checks.loop.ask() == b"75%\n"
