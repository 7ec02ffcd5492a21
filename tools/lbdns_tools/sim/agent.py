"""A simulated agent: the metrics that ``lbdns-agent`` would report of a simulated server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbdns_agent.metrics import METRICS
from lbdns_agent.overload import overload, parse_condition
from lbdns_tools.sim.server import IDLE_WORKERS, Server

GATEWAY_PING = 1.0  # ms


class Agent:
    """Counts from one report to the next, as the real one does; its question to server-status is a request as well."""

    __slots__ = ("_conditions", "_cpu", "_metrics", "_requests", "_server", "_status_requests", "_time", "alarm")

    def __init__(self, server: Server, alarms: Sequence[str] = ()) -> None:
        self._server = server
        self._conditions = tuple(parse_condition(text, METRICS) for text in alarms)
        self._metrics: dict[str, float] = {}
        self.alarm = ""  # why the host is overloaded, empty if it isn't
        self._requests = 0
        self._status_requests = 0
        self._cpu = 0.0
        self._time = 0.0

    def glance(self) -> Mapping[str, float] | None:
        """Between two reports: the metrics if an overload has just begun, which is told at once."""
        if self.alarm or not self._metrics or not self._server.up:
            return None
        metrics = self._metrics | {"listen_queue": float(len(self._server.waiting))}
        self.alarm = overload(self._conditions, metrics)
        return metrics if self.alarm else None

    def sample(self, now: float) -> Mapping[str, float]:
        """What is reported at ``now``; ``alarm`` says whether the host is overloaded."""
        self._metrics = self._read(now)
        self.alarm = overload(self._conditions, self._metrics)
        return self._metrics

    def _read(self, now: float) -> dict[str, float]:
        server = self._server
        server.advance(now)
        cores = server.spec.cores
        seconds = now - self._time
        self._time = now
        used = server.cpu + server.other_cpu
        busy_share = (used - self._cpu) / (cores * seconds) if seconds > 0 else 0.0
        self._cpu = used
        found = {
            "run_queue": server.busy + server.background,
            "cpu_idle": 100.0 * max(0.0, 1.0 - busy_share),
            "scan_rate": 0.0,
            "gateway_ping": GATEWAY_PING,
            "cpu_count": cores,
        }
        if not server.up:
            return found  # nothing listens and server-status fails
        self._status_requests += 1
        requests = server.completed + self._status_requests
        found["requests_total"] = float(requests)
        found["httpd_cpu_seconds"] = server.cpu
        found["busy_workers"] = float(min(server.spec.workers, server.busy + 1))
        found["idle_workers"] = float(min(IDLE_WORKERS, server.spec.workers - found["busy_workers"]))
        found["listen_queue"] = float(len(server.waiting))
        if seconds > 0:
            found["requests_per_s"] = (requests - self._requests) / seconds
        self._requests = requests
        return found
