"""cpu_count: the processors of the host, or the cores of the cgroup's quota."""

from __future__ import annotations

from typing import Final

from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values


def parse(text: bytes) -> int:
    """The processors that are on-line by a /proc/stat: it has a line for each. Raises ValueError."""
    count = text.count(b"\ncpu")
    if count == 0:
        raise ValueError("no /proc/stat: it has no line for a processor")
    return count


def read(host: Host) -> float:
    """The quota in cores if there is one, else the host's processors. Raises OSError, ValueError."""
    quota = host.group.quota() if host.group is not None else None
    return parse(host.proc.read("stat")) if quota is None else quota


def values(before: float | None, now: float, seconds: float) -> Values:
    return {"cpu_count": float(now)}


SENSOR: Final = Sensor("/proc/stat", read, values)
