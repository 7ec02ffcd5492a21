"""load1: the load average over one minute."""

from __future__ import annotations

from typing import Final

from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values


def parse(text: bytes) -> float:
    """The first field of a /proc/loadavg (proc_loadavg(5)). Raises ValueError."""
    fields = text.split(None, 1)
    if not fields:
        raise ValueError("no /proc/loadavg: it is empty")
    return float(fields[0])


def read(host: Host) -> float:
    return parse(host.proc.read("loadavg"))


def values(before: float | None, now: float, seconds: float) -> Values:
    return {"load1": now}


SENSOR: Final = Sensor("/proc/loadavg", read, values)
