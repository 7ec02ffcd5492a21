"""Requests /healthz repeatedly from a thread over one open connection, as a load balancer or a watchdog does."""

from __future__ import annotations

import http.client
import threading
from typing import Final, Self

from lbdns_tools.faults.fault_farm import FaultFarm

PERIOD_S: Final = 0.05
RESPONSE_S: Final = 3.0


class HealthWatch:
    """A context manager that requests /healthz repeatedly.

    ``was_unhealthy`` is set after a response with status 503 and a reason.
    """

    def __init__(self, farm: FaultFarm) -> None:
        self.was_unhealthy = False
        self.responses: dict[int, int] = {}  # the number of responses by status; 0: no response
        self._farm = farm
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health-watch", daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", farm.http_port, timeout=RESPONSE_S)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S):
            self._look()

    def _look(self) -> None:
        status, text = 0, b""
        try:
            self._connection.request("GET", "/healthz")
            response = self._connection.getresponse()
            status, text = response.status, response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request opens a new connection
        self.responses[status] = self.responses.get(status, 0) + 1
        self.was_unhealthy |= status == 503 and bool(text.strip())
