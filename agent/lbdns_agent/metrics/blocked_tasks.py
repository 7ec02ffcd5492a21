"""blocked_tasks: the number of tasks that wait for I/O on the host or in the limiting cgroup."""

from __future__ import annotations

from typing import Final

from lbdns_agent.sensor import MeasuredHost, Sensor, newest_value


def parse(text: bytes) -> int:
    """Return procs_blocked from /proc/stat (proc_stat(5)). Raises ValueError."""
    words = text.partition(b"\nprocs_blocked ")[2].split(None, 1)
    if not words:
        raise ValueError("the file contains no procs_blocked")
    return int(words[0])


def read(host: MeasuredHost) -> int:
    """Return the number of tasks that wait for I/O on the host, or the number of threads in uninterruptible sleep in
    the limiting cgroup.

    Raises OSError or ValueError.
    """
    if host.group is not None and host.group.counts:
        return host.group.blocked()
    return parse(host.proc.read("stat"))


SENSOR: Final = Sensor("/proc/stat", read, newest_value("blocked_tasks"), momentary=True)
