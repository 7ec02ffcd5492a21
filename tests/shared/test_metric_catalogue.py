"""Tests of the metric catalogue: units, and whether higher or lower values are better."""

from __future__ import annotations

import pytest

from lbdns_shared.metric_catalogue import CATALOGUE, EXTRA_METRICS, STANDARD_METRICS

UNITS = {
    "run_queue": "tasks",
    "cpu_idle": "%",
    "scan_rate": "pages/s",
    "gateway_ping": "ms",
    "requests_per_s": "requests/s",
    "busy_workers": "workers",
    "idle_workers": "workers",
    "requests_total": "requests",
    "httpd_cpu_seconds": "s",
    "cpu_count": "cores",
    "load1": "tasks",
    "cpu_steal": "%",
    "mem_available": "%",
    "disk_busy": "%",
    "disk_await": "ms",
    "listen_queue": "connections",
    "net_rx": "bytes/s",
    "net_tx": "bytes/s",
    "blocked_tasks": "tasks",
    "mem_free": "bytes",
    "swap_free": "bytes",
    "page_in": "bytes/s",
    "page_out": "bytes/s",
    "cpu_user": "%",
    "cpu_system": "%",
    "cpu_iowait": "%",
    "load5": "tasks",
    "load15": "tasks",
    "task_count": "tasks",
    "process_count": "processes",
}


def test_every_metric_has_its_unit() -> None:
    assert {name: metric.unit for name, metric in CATALOGUE.items()} == UNITS


@pytest.mark.parametrize(
    "name", ["run_queue", "scan_rate", "gateway_ping", "cpu_steal", "disk_await", "listen_queue", "blocked_tasks"]
)
def test_less_is_better(name: str) -> None:
    assert CATALOGUE[name].better == "low"


@pytest.mark.parametrize("name", ["cpu_idle", "idle_workers", "mem_available"])
def test_more_is_better(name: str) -> None:
    assert CATALOGUE[name].better == "high"


@pytest.mark.parametrize(
    "name", ["requests_total", "httpd_cpu_seconds", "cpu_count", "mem_free", "swap_free", "page_in", "page_out"]
)
def test_totals_say_nothing_about_load(name: str) -> None:
    assert CATALOGUE[name].better is None


def test_a_metric_is_either_standard_or_not() -> None:
    assert STANDARD_METRICS.keys().isdisjoint(EXTRA_METRICS)
    assert list(CATALOGUE) == [*STANDARD_METRICS, *EXTRA_METRICS]
