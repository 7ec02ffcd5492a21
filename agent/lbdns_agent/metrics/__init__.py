"""The table of metrics: each name with its unit and the sensor it comes from. A new metric is a line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lbdns_agent.metrics import (
    cpu,
    cpu_count,
    disk,
    gateway_ping,
    httpd_cpu_seconds,
    listen_queue,
    load1,
    mem_available,
    net,
    run_queue,
    scan_rate,
    server_status,
)
from lbdns_agent.sensor import AsideSensor, Sensor


@dataclass(frozen=True, slots=True)
class Metric:
    unit: str
    sensor: Sensor[Any] | AsideSensor[Any]


METRICS: Final[Mapping[str, Metric]] = {
    "run_queue": Metric("tasks", run_queue.SENSOR),
    "cpu_idle": Metric("%", cpu.SENSOR),
    "scan_rate": Metric("pages/s", scan_rate.SENSOR),
    "gateway_ping": Metric("ms", gateway_ping.SENSOR),
    "requests_per_s": Metric("requests/s", server_status.SENSOR),
    "busy_workers": Metric("workers", server_status.SENSOR),
    "idle_workers": Metric("workers", server_status.SENSOR),
    "requests_total": Metric("requests", server_status.SENSOR),
    "httpd_cpu_seconds": Metric("s", httpd_cpu_seconds.SENSOR),
    "cpu_count": Metric("cores", cpu_count.SENSOR),
    "load1": Metric("tasks", load1.SENSOR),
    "cpu_steal": Metric("%", cpu.SENSOR),
    "mem_available": Metric("%", mem_available.SENSOR),
    "disk_busy": Metric("%", disk.SENSOR),
    "disk_await": Metric("ms", disk.SENSOR),
    "listen_queue": Metric("connections", listen_queue.SENSOR),
    "net_rx": Metric("bytes/s", net.SENSOR),
    "net_tx": Metric("bytes/s", net.SENSOR),
}
