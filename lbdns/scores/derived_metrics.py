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
MAX_DERIVED: Final = 1e15  # keeps quotients of absurd values finite
STATUS_WORKERS: Final = 1.0  # workers that serve the agent's own status request while they are counted


def score_metrics() -> dict[str, MetricDescription]:
    """Return all metrics that a score can use: those of the catalogue, then the derived ones."""
    return {**CATALOGUE, **DERIVED_METRICS}


def with_derived_metrics(metrics: Mapping[str, float], capacity: float, interval: float) -> dict[str, float]:
    """Return ``metrics`` together with the derived metrics, except those whose sources are missing.

    ``capacity`` is the host's estimated capacity in requests/s, or 0 if it is unknown. The agent's own status request,
    sent once per ``interval`` (seconds), does not count.
    """
    found = dict(metrics)
    for name in DERIVED_METRICS:
        found.pop(name, None)
    cores = metrics.get("cpu_count", 1.0)
    if "run_queue" in metrics and cores > 0:
        found["run_queue_per_core"] = _ratio(metrics["run_queue"], cores)
    if "busy_workers" in metrics and "idle_workers" in metrics:
        idle = max(0.0, metrics["idle_workers"])
        workers = idle + max(0.0, metrics["busy_workers"] - STATUS_WORKERS)
        if workers > 0:
            found["idle_worker_share"] = 100.0 * _ratio(idle, workers)
        elif metrics["busy_workers"] > 0:
            found["idle_worker_share"] = 0.0
    if "requests_per_s" in metrics and capacity > 0:
        found["capacity_used"] = min(MAX_DERIVED, 100.0 * _ratio(metrics["requests_per_s"] - 1 / interval, capacity))
    return found


def _ratio(value: float, whole: float) -> float:
    return min(MAX_DERIVED, max(0.0, value) / whole)
