"""Requests on their way through the simulated web servers: sent, refused, lost, answered; and the counts of them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from lbdns_tools.sim.request_sources import ClosedClients
from lbdns_tools.sim.simulated_web_server import SimulatedRequest, SimulatedWebServer
from lbdns_tools.sim.simulation_scenario import DEADLINE, Scenario


class RequestFlow:
    """Sends requests to servers and counts what becomes of them after the warm-up.

    ``ends`` holds the time of each server's next departure; infinity if no request is being processed there.
    """

    def __init__(self, scenario: Scenario, servers: Sequence[SimulatedWebServer]) -> None:
        self._servers = servers
        self._begin, self._end = scenario.warm_up, scenario.end
        self.ends = [math.inf] * len(servers)
        self.closed: ClosedClients | None = None  # the clients that wait for their responses, if they are simulated
        self.responses = array("d")  # seconds
        self.sent = [0] * len(servers)  # requests by server
        self.failed = 0
        self.second_count, self.second_sum = 0, 0.0  # responses since the last full second, and their seconds

    def send(self, now: float, member: int, size: float, client: int) -> None:
        """Send a request of ``size`` seconds of work to a server; ``client`` is NO_CLIENT outside a closed loop."""
        if self._begin <= now < self._end:
            self.sent[member] += 1
        server = self._servers[member]
        if server.up and server.arrive(now, size, (now, client)):
            self.ends[member] = server.next_end
            return
        self._lose(now, now, client)

    def respond(self, request: SimulatedRequest, now: float) -> None:
        """Count the response to ``request``; a client of the closed loop sends its next request."""
        started, client = request
        seconds = now - started
        self.second_count += 1
        self.second_sum += min(seconds, DEADLINE)
        if self._begin <= started < self._end:
            if seconds > DEADLINE:
                self.failed += 1
                seconds = DEADLINE
            self.responses.append(seconds)
        if self.closed is not None:
            self.closed.send_next(client, now)

    def fail_server(self, member: int, now: float) -> None:
        """Stop a web server; all requests there are lost."""
        for started, client in self._servers[member].fail(now):
            self._lose(now, started, client)
        self.ends[member] = math.inf

    def _lose(self, now: float, started: float, client: int) -> None:
        """Count a request that started at ``started`` and will never be answered."""
        if self._begin <= started < self._end:
            self.responses.append(DEADLINE)
            self.failed += 1
        self.second_count += 1
        self.second_sum += DEADLINE
        if self.closed is not None:
            self.closed.time_out(client, max(now, started + DEADLINE))
