"""The catalogue of metrics in reports: each metric's unit, meaning and sensor, and whether high or low values are good.

Scores are computed from the metrics in this catalogue. A report may also contain other metrics, which are passed on
unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Better = Literal["low", "high"]


@dataclass(frozen=True)
class MetricDescription:
    """The description of one metric.

    ``sensor`` is the name of the module in ``lbdns_agent.metrics`` that measures the metric.
    """

    unit: str
    meaning: str
    better: Better | None  # None: a count or a size that says nothing about load by itself
    sensor: str


#: Names that no agent may use for a metric: the server computes or records its own values under them
RESERVED: Final = frozenset(
    {
        "run_queue_per_core", "idle_worker_share", "capacity_used",
        "answers", "score", "usable", "age_s", "interval", "reports", "state", "gone",
    }
)  # fmt: skip

#: The metrics that every agent reports if it can read them
STANDARD_METRICS: Final[Mapping[str, MetricDescription]] = {
    "run_queue": MetricDescription("tasks", "runnable tasks, excluding the agent itself", "low", "run_queue"),
    "cpu_idle": MetricDescription("%", "percentage of CPU time that was idle", "high", "cpu_time"),
    "scan_rate": MetricDescription("pages/s", "pages scanned for reclaim", "low", "scan_rate"),
    "gateway_ping": MetricDescription("ms", "ICMP round-trip time to the default gateway", "low", "gateway_ping"),
    "requests_per_s": MetricDescription(
        "requests/s", "request rate since the last sample", "high", "web_server_requests"
    ),
    "busy_workers": MetricDescription("workers", "web server workers serving requests", "low", "web_server_requests"),
    "idle_workers": MetricDescription(
        "workers", "web server workers waiting for requests", "high", "web_server_requests"
    ),
    "requests_total": MetricDescription(
        "requests", "requests since the web server started", None, "web_server_requests"
    ),
    "httpd_cpu_seconds": MetricDescription(
        "s", "cumulative CPU time of the web server and its children", None, "httpd_cpu_seconds"
    ),
    "cpu_count": MetricDescription("cores", "number of processors, or the cgroup's quota in cores", None, "cpu_count"),
    "load1": MetricDescription("tasks", "load average over one minute", "low", "load_averages"),
    "cpu_steal": MetricDescription(
        "%", "percentage of CPU time withheld by the hypervisor or the quota", "low", "cpu_time"
    ),
    "mem_available": MetricDescription("%", "memory available without swapping", "high", "mem_available"),
    "disk_busy": MetricDescription("%", "busy time of the busiest disk, as a percentage", "low", "disk_activity"),
    "disk_await": MetricDescription("ms", "mean duration of requests to the busiest disk", "low", "disk_activity"),
    "listen_queue": MetricDescription("connections", "connections waiting to be accepted", "low", "listen_queue"),
    "net_rx": MetricDescription("bytes/s", "bytes received", None, "network_traffic"),
    "net_tx": MetricDescription("bytes/s", "bytes sent", None, "network_traffic"),
}

#: The metrics that agents report only with ``--metrics all``: built-in scores need none of them, and they make reports
#: and histories larger
EXTRA_METRICS: Final[Mapping[str, MetricDescription]] = {
    "blocked_tasks": MetricDescription("tasks", "tasks waiting for I/O", "low", "blocked_tasks"),
    "mem_free": MetricDescription("bytes", "memory that nothing uses, not even as a cache", None, "free_memory"),
    "swap_free": MetricDescription("bytes", "free swap space", None, "free_memory"),
    "page_in": MetricDescription("bytes/s", "bytes read from disks, for files and swap", None, "paging_traffic"),
    "page_out": MetricDescription("bytes/s", "bytes written to disks, for files and swap", None, "paging_traffic"),
    "cpu_user": MetricDescription("%", "percentage of CPU time that programs used", "low", "cpu_split"),
    "cpu_system": MetricDescription("%", "percentage of CPU time that the kernel used", "low", "cpu_split"),
    "cpu_iowait": MetricDescription("%", "percentage of CPU time that was idle and waited for I/O", "low", "cpu_split"),
    "load5": MetricDescription("tasks", "load average over five minutes", "low", "load_averages"),
    "load15": MetricDescription("tasks", "load average over fifteen minutes", "low", "load_averages"),
    "task_count": MetricDescription("tasks", "processes and threads", None, "task_count"),
    "process_count": MetricDescription("processes", "processes, without threads", None, "process_count"),
}

CATALOGUE: Final[Mapping[str, MetricDescription]] = {**STANDARD_METRICS, **EXTRA_METRICS}
