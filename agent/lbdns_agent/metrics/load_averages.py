"""load1, load5 and load15: the load averages over one, five and fifteen minutes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor

NAMES: Final = ("load1", "load5", "load15")


def parse(text: bytes) -> tuple[float, ...]:
    """Return the first three fields of /proc/loadavg (proc_loadavg(5)). Raises ValueError."""
    fields = text.split(None, 3)
    if len(fields) < 3:
        raise ValueError("the file must contain three load averages")
    return tuple(float(field) for field in fields[:3])


def read(host: MeasuredHost) -> tuple[float, ...]:
    return parse(host.proc.read("loadavg"))


def read_psutil(psutil: Any) -> tuple[float, ...]:
    return tuple(float(load) for load in psutil.getloadavg())


def values(before: Sequence[float] | None, now: Sequence[float], seconds: float) -> MetricValues:
    return dict(zip(NAMES, now))


SENSOR: Final = Sensor("/proc/loadavg", read, values, read_psutil=read_psutil)
