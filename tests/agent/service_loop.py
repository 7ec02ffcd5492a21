"""Runs a service of the agent in a loop like the agent's, and measures the delays of the loop's turns."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

from lbdns_agent.non_blocking_sensors import SensorTasks, Service
from tests.agent.waiting import PATIENCE

TURN = 0.05  # seconds between two turns of the loop, which stand for reports


class ServiceLoop:
    """A loop with one service, which listens on ``port`` of 127.0.0.1."""

    def __init__(self, service: Service, port: int) -> None:
        self.port = port
        self.late: list[float] = []  # for each turn, the seconds by which it was too long
        self.polls = 0
        self._tasks = SensorTasks()
        self._tasks.services.append(service)
        self._end = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end:
            due = time.monotonic() + TURN
            while time.monotonic() < due:
                self._tasks._poll(due, None)
                self.polls += 1
            self.late.append(time.monotonic() - due)

    def stop(self) -> None:
        self._end = True
        self._thread.join()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(self, request: bytes = b"") -> bytes:
        """Send a request, and return everything that a client receives until the server ends the connection."""
        with self.connect() as client:
            client.sendall(request)
            return b"".join(iter(lambda: client.recv(65536), b""))


@contextlib.contextmanager
def service_loop(service: Service, port: int) -> Iterator[ServiceLoop]:
    """Yield a running loop, which ends with the context."""
    loop = ServiceLoop(service, port)
    try:
        yield loop
    finally:
        loop.stop()
