"""The server of agent checks: real clients, good and bad, in the agent's own loop."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Iterator

import pytest

from lbdns_agent.agent_check import check_server
from lbdns_agent.agent_check.check_server import LINGER, MOST_OPEN, AgentCheckServer, open_listener
from lbdns_agent.non_blocking_sensors import SensorTasks
from lbdns_shared.endpoint import Endpoint
from lbdns_shared.errors import LbdnsError
from tests.agent.waiting import PATIENCE, until
from tests.needs import needs


class Loop:
    """A server in a loop like the agent's, and the delays of the loop's turns."""

    def __init__(self) -> None:
        self.listener = open_listener(Endpoint("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.server = AgentCheckServer(self.listener, lambda: b"75%\n")
        self.tasks = SensorTasks()
        self.tasks.services.append(self.server)
        self.late: list[float] = []  # for each turn of 50 ms, the seconds by which it was too long
        self._end = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end:
            due = time.monotonic() + 0.05
            self.tasks.wait(due)
            self.late.append(time.monotonic() - due)

    def stop(self) -> None:
        self._end = True
        self._thread.join()
        self.server.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(self, first: bytes = b"") -> bytes:
        """Return everything that a client receives until the server ends the connection."""
        with self.connect() as client:
            client.sendall(first)
            return b"".join(iter(lambda: client.recv(100), b""))


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = Loop()
    yield found
    found.stop()


def test_every_client_receives_the_line(loop: Loop) -> None:
    assert [loop.ask() for _ in range(20)] == [b"75%\n"] * 20
    assert loop.ask(b"state?\n") == b"75%\n", "HAProxy may send a line first (agent-send)"
    assert loop.server.asked_at == pytest.approx(time.monotonic(), abs=PATIENCE)


def test_silent_clients_delay_nothing_and_are_closed(loop: Loop) -> None:
    clients = [loop.connect() for _ in range(2 * MOST_OPEN)]
    for client in clients:
        assert client.recv(100) == b"75%\n"
    assert loop.ask() == b"75%\n"
    assert len(loop.server._open) <= MOST_OPEN + 1
    until(lambda: not loop.server._open)
    for client in clients:
        client.close()
    assert statistics.median(loop.late) < LINGER / 2


def test_the_rate_of_connections_is_limited(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_server, "MOST_PER_SECOND", 5)
    began = time.monotonic()
    assert [loop.ask() for _ in range(11)] == [b"75%\n"] * 11, "the kernel keeps the others waiting"
    assert time.monotonic() - began >= 1.5
    before, began = len(loop.late), time.monotonic()
    time.sleep(0.2)
    assert len(loop.late) - before < 100 * (time.monotonic() - began), "the loop does not spin while it pauses"


def test_a_client_that_sends_much_is_cut_off(loop: Loop) -> None:
    with loop.connect() as client:
        client.settimeout(PATIENCE)
        with pytest.raises(OSError, match=r"reset|pipe"):
            client.sendall(b"x" * 2**28)
    assert loop.ask() == b"75%\n"


def test_a_port_that_is_taken_is_an_error(loop: Loop) -> None:
    expected = rf"--agent-check: cannot listen on 127\.0\.0\.1:{loop.port}: Address already in use"
    with pytest.raises(LbdnsError, match=expected):
        open_listener(Endpoint("127.0.0.1", loop.port))


@needs(ipv6=True)
def test_without_an_address_it_listens_on_ipv4_and_ipv6() -> None:
    with open_listener(Endpoint("", 0)) as listener:
        port = listener.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=PATIENCE).close()
