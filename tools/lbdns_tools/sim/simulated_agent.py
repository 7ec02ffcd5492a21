"""A simulated agent: the metrics and alarms that ``lbdns-agent`` would report from a simulated web server's host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lbdns_agent.alarm_conditions import alarm_reason, parse_alarm_condition
from lbdns_shared.metric_catalogue import CATALOGUE
from lbdns_tools.sim.simulated_web_server import IDLE_WORKERS, SimulatedWebServer

GATEWAY_PING = 1.0  # ms


class SimulatedAgent:
    """Takes samples as the real agent does; its request for server-status counts as a request of the web server."""

    __slots__ = ("_conditions", "_cpu", "_metrics", "_requests", "_server", "_status_requests", "_time", "alarm")

    def __init__(self, server: SimulatedWebServer, alarms: Sequence[str] = ()) -> None:
        self._server = server
        self._conditions = tuple(parse_alarm_condition(text, CATALOGUE) for text in alarms)
        self._metrics: dict[str, float] = {}
        self.alarm = ""  # why the host is overloaded; "" if it is not
        self._requests = 0
        self._status_requests = 0
        self._cpu = 0.0
        self._time = 0.0

    def check_alarm(self) -> Mapping[str, float] | None:
        """Return the metrics to report at once if an overload has just begun, else None. Call between reports."""
        if self.alarm or not self._metrics or not self._server.up:
            return None
        metrics = self._metrics | {"listen_queue": float(len(self._server.waiting))}
        self.alarm = alarm_reason(self._conditions, metrics)
        return metrics if self.alarm else None

    def sample(self, now: float) -> Mapping[str, float]:
        """Return the metrics to report at ``now``, and set ``alarm``."""
        self._metrics = self._read(now)
        self.alarm = alarm_reason(self._conditions, self._metrics)
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
            return found  # server-status fails
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
