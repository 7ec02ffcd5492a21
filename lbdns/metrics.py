"""The catalogue of metrics: what a report may say of a host, in which unit, and which way is better.

The agent's table of sensors fills it, scores weigh it, pages label it. Unknown metrics pass through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Better = Literal["low", "high"]


@dataclass(frozen=True, slots=True)
class Metric:
    unit: str
    meaning: str
    better: Better | None  # None: a count or a size that says nothing about load by itself


CATALOGUE: Final[Mapping[str, Metric]] = {
    "run_queue": Metric("tasks", "runnable tasks, the sampler itself not counted", "low"),
    "cpu_idle": Metric("%", "idle time of all processors over the interval", "high"),
    "scan_rate": Metric("pages/s", "pages scanned for reclaim", "low"),
    "gateway_ping": Metric("ms", "ICMP echo round trip to the default gateway", "low"),
    "requests_per_s": Metric("requests/s", "requests since the last sample", "high"),
    "busy_workers": Metric("workers", "web server workers at work", "low"),
    "idle_workers": Metric("workers", "web server workers waiting for work", "high"),
    "requests_total": Metric("requests", "requests since the web server started", None),
    "httpd_cpu_seconds": Metric("s", "CPU time of the web server and its children, cumulative", None),
    "cpu_count": Metric("cores", "processors, or the quota of the cgroup", None),
    "load1": Metric("tasks", "load average over one minute", "low"),
    "cpu_steal": Metric("%", "time that the hypervisor or the quota took away", "low"),
    "mem_available": Metric("%", "memory available without swapping", "high"),
    "disk_busy": Metric("%", "time the busiest disk was at work", "low"),
    "disk_await": Metric("ms", "mean time of a request to the busiest disk", "low"),
    "listen_queue": Metric("connections", "connections waiting to be accepted", "low"),
    "net_rx": Metric("bytes/s", "bytes received", None),
    "net_tx": Metric("bytes/s", "bytes sent", None),
}
