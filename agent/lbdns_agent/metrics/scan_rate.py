"""scan_rate: pages/s scanned for reclaim, the sign of a host that runs out of memory."""

from __future__ import annotations

import re
from typing import Final

from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values, rate

# One counter each since Linux 4.8, one a zone before. Left out: pgscan_anon and pgscan_file (the same pages
# by their kind), pgscan_direct_throttle (processes, not pages), pgscan_proactive (asked for by somebody).
_SCANNED = re.compile(rb"^pgscan_(?:kswapd|direct|khugepaged)(?:_(?!throttle)[a-z0-9]+)? (\d+)$", re.MULTILINE)


def parse(text: bytes) -> int:
    """Pages scanned since the start by a /proc/vmstat (mm/vmstat.c). Raises ValueError."""
    start = text.find(b"\npgscan_")
    found = _SCANNED.findall(text, max(start, 0))
    if not found:
        raise ValueError("no /proc/vmstat: it has no pgscan_ counters")
    return sum(map(int, found))


def read(host: Host) -> tuple[str, int]:
    """Where the pages are counted, and how many. Raises OSError, ValueError."""
    if host.group is not None and host.group.counts:
        scanned = host.group.scanned()
        if scanned is not None:
            return "cgroup", scanned
    return "host", parse(host.proc.read("vmstat"))


def values(before: tuple[str, int] | None, now: tuple[str, int], seconds: float) -> Values:
    if before is None or before[0] != now[0] or seconds <= 0:
        return {}
    return {"scan_rate": rate(before[1], now[1], seconds)}


SENSOR: Final = Sensor("/proc/vmstat", read, values)
