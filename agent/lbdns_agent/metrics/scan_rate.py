"""scan_rate: pages/s scanned for reclaim; a high rate means that the host is running out of memory."""

from __future__ import annotations

import re
from typing import Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor, rate

# Each scanner has one counter since Linux 4.8, and had one per memory zone before. Left out: pgscan_anon and
# pgscan_file (the same pages by kind), pgscan_direct_throttle (counts processes, not pages), and pgscan_proactive
# (requested by a program).
_SCANNED = re.compile(rb"^pgscan_(?:kswapd|direct|khugepaged)(?:_(?!throttle)[a-z0-9]+)? (\d+)$", re.MULTILINE)


def parse(text: bytes) -> int:
    """Return the number of pages scanned since boot, from /proc/vmstat (mm/vmstat.c). Raises ValueError."""
    start = text.find(b"\npgscan_")
    found = _SCANNED.findall(text, max(start, 0))
    if not found:
        raise ValueError("the file contains no counters whose names begin with pgscan_")
    return sum(map(int, found))


def read(host: MeasuredHost) -> tuple[str, int]:
    """Return two values: the source of the count (``cgroup`` or ``host``), and the number of pages scanned so far.

    Raises OSError or ValueError.
    """
    if host.group is not None and host.group.counts:
        scanned = host.group.scanned()
        if scanned is not None:
            return "cgroup", scanned
    return "host", parse(host.proc.read("vmstat"))


def values(before: tuple[str, int] | None, now: tuple[str, int], seconds: float) -> MetricValues:
    if before is None or before[0] != now[0] or seconds <= 0:
        return {}
    return {"scan_rate": rate(before[1], now[1], seconds)}


SENSOR: Final = Sensor("/proc/vmstat", read, values)
