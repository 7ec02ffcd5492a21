"""Formats the figures of a sample as a text page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lbdns_agent.host_sampler import HostSample

KB: Final = 1024.0  # bytes
#: The figures of ServerStatus, the monitor of the 2014 study of scaling in a cloud. Each name, which contains the unit,
#: maps to a metric, and to the size of the figure's unit in the unit of the metric
HOST_FIGURES: Final[Mapping[str, tuple[str, float]]] = {
    "cpu_user_percent": ("cpu_user", 1.0),
    "cpu_system_percent": ("cpu_system", 1.0),
    "cpu_iowait_percent": ("cpu_iowait", 1.0),
    "cpu_idle_percent": ("cpu_idle", 1.0),
    "cpu_steal_percent": ("cpu_steal", 1.0),
    "load_1min": ("load1", 1.0),
    "load_5min": ("load5", 1.0),
    "load_15min": ("load15", 1.0),
    "processes_running": ("run_queue", 1.0),
    "processes_blocked": ("blocked_tasks", 1.0),
    "processes_total": ("process_count", 1.0),
    "disk_read_kb_per_s": ("page_in", KB),
    "disk_written_kb_per_s": ("page_out", KB),
    "memory_available_percent": ("mem_available", 1.0),
    "memory_free_kb": ("mem_free", KB),
    "swap_free_kb": ("swap_free", KB),
}


@dataclass(frozen=True)
class PageSample:
    """A sample, and when it was taken: ``time`` in Unix seconds, ``taken_at`` on the monotonic clock."""

    sample: HostSample
    time: float
    taken_at: float


def figures_page(host: str, interval: float, alarm: str, newest: PageSample, now: float) -> str:
    """Return the page of ``host``: lines ``NAME VALUE``, and comments that begin with ``#``.

    ``interval`` is the time between two samples in seconds, ``alarm`` is the reason for an alarm or an empty string,
    and ``now`` is monotonic seconds. The page is valid in Prometheus's text format. It contains the figures of the host
    (``HOST_FIGURES``), then all metrics under their own names. A comment gives the reason for each missing metric.
    """
    sample = newest.sample
    lines = [
        f"# {host}: the last sample of lbdns-agent",
        f"# alarm: {_one_line(alarm)}" if alarm else "# no alarm",
        _line("sample_time", newest.time),
        _line("sample_age_seconds", max(0.0, now - newest.taken_at)),
        _line("sample_interval_seconds", interval),
        "",
        "# Figures of the host",
        *_host_figures(sample.metrics),
        "",
        "# Metrics",
        *(_line(name, value) for name, value in sample.metrics.items()),
    ]
    if sample.missing:
        lines += ["", "# Missing metrics"]
        lines += [f"# {name}: {_one_line(why)}" for name, why in sample.missing.items()]
    return "\n".join(lines) + "\n"


def _host_figures(metrics: Mapping[str, float]) -> Iterator[str]:
    for name, (metric, unit) in HOST_FIGURES.items():
        if metric in metrics:
            yield _line(name, metrics[metric] / unit)


def _line(name: str, value: float) -> str:
    return f"{name} {value:.0f}" if value == int(value) else f"{name} {value:.3f}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
