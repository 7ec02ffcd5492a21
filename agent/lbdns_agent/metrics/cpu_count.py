"""cpu_count: the number of processors in the host, or the cgroup's quota in cores."""

from __future__ import annotations

from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, Sensor, newest_value


def parse(text: bytes) -> int:
    """Return the number of online processors, each of which has one line in /proc/stat. Raises ValueError."""
    count = text.count(b"\ncpu")
    if count == 0:
        raise ValueError("the file lists no processors")
    return count


def read(host: MeasuredHost) -> float:
    """Return the quota in cores, or the number of processors if there is no quota. Raises OSError or ValueError."""
    quota = host.group.quota() if host.group is not None else None
    return parse(host.proc.read("stat")) if quota is None else quota


def read_psutil(psutil: Any) -> float:
    count = psutil.cpu_count()
    if not count:
        raise ValueError("psutil can't determine the number of processors")
    return float(count)


SENSOR: Final = Sensor("/proc/stat", read, newest_value("cpu_count"), read_psutil=read_psutil)
