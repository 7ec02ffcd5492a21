"""The catalogue of metrics in reports: unit, meaning, which direction is better, and the agent's sensor. Scores weigh
the metrics, pages label them. A report may carry other metrics too; they pass through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Better = Literal["low", "high"]


@dataclass(frozen=True)
class MetricDescription:
    """One metric. ``sensor`` is the module of ``lbdns_agent.metrics`` that measures it."""

    unit: str
    meaning: str
    better: Better | None  # None: a count or a size that says nothing about load by itself
    sensor: str


_TABLE: Final[tuple[tuple[str, str, Better | None, str, str], ...]] = (
    # metric, unit, better, sensor, meaning
    ("run_queue", "tasks", "low", "run_queue", "runnable tasks, the sampler itself not counted"),
    ("cpu_idle", "%", "high", "cpu_time", "idle time of all processors over the interval"),
    ("scan_rate", "pages/s", "low", "scan_rate", "pages scanned for reclaim"),
    ("gateway_ping", "ms", "low", "gateway_ping", "ICMP echo round trip to the default gateway"),
    ("requests_per_s", "requests/s", "high", "web_server_requests", "requests since the last sample"),
    ("busy_workers", "workers", "low", "web_server_requests", "web server workers at work"),
    ("idle_workers", "workers", "high", "web_server_requests", "web server workers waiting for work"),
    ("requests_total", "requests", None, "web_server_requests", "requests since the web server started"),
    ("httpd_cpu_seconds", "s", None, "httpd_cpu_seconds", "CPU time of the web server and its children, cumulative"),
    ("cpu_count", "cores", None, "cpu_count", "processors, or the quota of the cgroup"),
    ("load1", "tasks", "low", "load1", "load average over one minute"),
    ("cpu_steal", "%", "low", "cpu_time", "time that the hypervisor or the quota took away"),
    ("mem_available", "%", "high", "mem_available", "memory available without swapping"),
    ("disk_busy", "%", "low", "disk_activity", "time the busiest disk was at work"),
    ("disk_await", "ms", "low", "disk_activity", "mean time of a request to the busiest disk"),
    ("listen_queue", "connections", "low", "listen_queue", "connections waiting to be accepted"),
    ("net_rx", "bytes/s", None, "network_traffic", "bytes received"),
    ("net_tx", "bytes/s", None, "network_traffic", "bytes sent"),
)

CATALOGUE: Final[Mapping[str, MetricDescription]] = {
    name: MetricDescription(unit, meaning, better, sensor) for name, unit, better, sensor, meaning in _TABLE
}
