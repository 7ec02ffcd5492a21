"""task_count: the number of processes and threads on the host."""

from __future__ import annotations

from typing import Final

from lbdns_agent.sensor import MeasuredHost, Sensor, newest_value


def parse(text: bytes) -> int:
    """Return the number of tasks from /proc/loadavg, field 4 (``RUNNING/TASKS``). Raises ValueError."""
    fields = text.split()
    if len(fields) < 4:
        raise ValueError("the file must contain at least four fields")
    return int(fields[3].partition(b"/")[2])


def read(host: MeasuredHost) -> int:
    return parse(host.proc.read("loadavg"))


SENSOR: Final = Sensor("/proc/loadavg", read, newest_value("task_count"))
