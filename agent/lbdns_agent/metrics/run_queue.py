"""run_queue: the number of runnable tasks on the host or in the limiting cgroup, excluding the agent itself."""

from __future__ import annotations

from typing import Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor, newest_value

SAMPLER: Final = 1  # this agent is running while it reads


def parse(text: bytes) -> int:
    """Return procs_running from /proc/stat (proc_stat(5)). Raises ValueError."""
    words = text.partition(b"\nprocs_running ")[2].split(None, 1)
    if not words:
        raise ValueError("the file contains no procs_running")
    return int(words[0])


def parse_loadavg(text: bytes) -> int:
    """Return the number of runnable tasks from /proc/loadavg, field 4 (``RUNNING/TASKS``). Raises ValueError."""
    fields = text.split()
    if len(fields) < 4:
        raise ValueError("the file must contain at least four fields")
    return int(fields[3].partition(b"/")[0])


def read(host: MeasuredHost) -> int:
    """Return the number of runnable tasks on the host or in the limiting cgroup, excluding the agent.

    Raises OSError or ValueError.
    """
    if host.group is not None and host.group.counts:
        return host.group.runnable()
    return max(0, parse(host.proc.read("stat")) - SAMPLER)


def quick_read(host: MeasuredHost) -> MetricValues:
    """Return the metric from /proc/loadavg, because reading /proc/stat takes ten times as long.

    For a cgroup, this function returns no metric, because the cgroup's threads must be read one by one.
    """
    if host.group is not None and host.group.counts:
        return {}
    return {"run_queue": float(max(0, parse_loadavg(host.proc.read("loadavg")) - SAMPLER))}


SENSOR: Final = Sensor("/proc/stat", read, newest_value("run_queue"), momentary=True, quick_read=quick_read)
