"""load1: the load average over one minute."""

from __future__ import annotations

from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, Sensor, newest_value


def parse(text: bytes) -> float:
    """Return the first field of /proc/loadavg (proc_loadavg(5)). Raises ValueError."""
    fields = text.split(None, 1)
    if not fields:
        raise ValueError("the file is empty")
    return float(fields[0])


def read(host: MeasuredHost) -> float:
    return parse(host.proc.read("loadavg"))


def read_psutil(psutil: Any) -> float:
    return float(psutil.getloadavg()[0])


SENSOR: Final = Sensor("/proc/loadavg", read, newest_value("load1"), read_psutil=read_psutil)
