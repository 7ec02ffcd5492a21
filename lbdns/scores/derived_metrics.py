"""Derived metrics: a report's metrics relative to the host's cores, workers and capacity. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lbdns_shared.metric_catalogue import CATALOGUE, MetricDescription

#: Metrics that the collector adds to each report. An agent cannot report them: the collector replaces their values.
DERIVED_METRICS: Final[Mapping[str, MetricDescription]] = {
    "run_queue_per_core": MetricDescription("tasks", "runnable tasks per core", "low", ""),
    "idle_worker_share": MetricDescription("%", "percentage of the web server's workers that are idle", "high", ""),
    "capacity_used": MetricDescription("%", "request rate as a percentage of the estimated capacity", "low", ""),
}
_NAMES: Final = tuple(DERIVED_METRICS)
MAX_DERIVED: Final = 1e15  # keeps quotients of absurd values finite
STATUS_WORKERS: Final = 1.0  # workers that serve the agent's own status request while they are counted


def score_metrics() -> dict[str, MetricDescription]:
    """Return all metrics that a score can use: those of the catalogue, then the derived ones."""
    return {**CATALOGUE, **DERIVED_METRICS}


def with_derived_metrics(metrics: Mapping[str, float], capacity: float, interval: float) -> dict[str, float]:
    """Return ``metrics`` together with the derived metrics (see ``add_derived_metrics``)."""
    found = dict(metrics)
    add_derived_metrics(found, capacity, interval)
    return found


def add_derived_metrics(metrics: dict[str, float], capacity: float, interval: float) -> None:
    """Set the derived metrics in ``metrics``. Remove those whose sources are missing.

    ``capacity`` is the host's estimated capacity in requests/s, or 0 if it is unknown. The agent's own status request,
    sent once per ``interval`` (seconds), does not count.
    """
    # This function runs once per report: comparisons in line, because calls of max and min take twice as long
    for name in _NAMES:
        metrics.pop(name, None)
    get = metrics.get
    cores, run_queue, busy, idle = get("cpu_count", 1.0), get("run_queue"), get("busy_workers"), get("idle_workers")
    if run_queue is not None and cores > 0:
        ratio = run_queue / cores if run_queue > 0.0 else 0.0
        metrics["run_queue_per_core"] = ratio if ratio < MAX_DERIVED else MAX_DERIVED
    if busy is not None and idle is not None:
        idle = idle if idle > 0.0 else 0.0
        workers = idle + (busy - STATUS_WORKERS if busy > STATUS_WORKERS else 0.0)
        if workers > 0:
            metrics["idle_worker_share"] = 100.0 * (idle / workers)
        elif busy > 0:
            metrics["idle_worker_share"] = 0.0
    requests = get("requests_per_s")
    if requests is not None and capacity > 0:
        served = requests - 1 / interval
        used = 100.0 * (served / capacity) if served > 0.0 else 0.0
        metrics["capacity_used"] = used if used < MAX_DERIVED else MAX_DERIVED
