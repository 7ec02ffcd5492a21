"""disk_busy and disk_await: the percentage of time that the busiest disk was busy, and its mean request time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor

# Not disks: memory, removable media, and devices on top of disks that are listed themselves (RAID, device mapper)
_NOT_A_DISK = re.compile(rb"(?:ram|loop|zram|sr|fd|md|dm-|mtdblock|cd|pass)\d")


@dataclass(frozen=True)
class DiskCounters:
    """A disk's totals since boot: completed requests, request time (ms) and busy time (ms, or None if unknown)."""

    requests: int
    waited: int
    busy: int | None


def parse(text: bytes) -> dict[bytes, DiskCounters]:
    """Return the counters of all whole disks in /proc/diskstats (admin-guide/iostats.rst). Raises ValueError.

    A line had 14 fields before Linux 4.18. Linux 4.18 added 4 fields for discards, and Linux 5.5 added 2 fields for
    flushes.
    """
    lines = {fields[2]: fields[3:] for fields in map(bytes.split, text.splitlines()) if len(fields) >= 14}
    found = {}
    for name in _whole_disks(lines):
        numbers = [int(field) for field in lines[name]]
        discards, discarding = (numbers[11], numbers[14]) if len(numbers) >= 15 else (0, 0)
        requests = numbers[0] + numbers[4] + discards
        found[name] = DiskCounters(requests, numbers[3] + numbers[7] + discarding, numbers[9])
    return found


def _whole_disks(names: Iterable[bytes]) -> list[bytes]:
    disks = {name for name in names if not _NOT_A_DISK.match(name)}
    return [name for name in disks if _parent_disk(name) not in disks]


def _parent_disk(name: bytes) -> bytes:
    """Return the name of the disk that contains partition ``name``, or "" if there is none (kernel: disk_name)."""
    disk = name.rstrip(b"0123456789")
    if disk == name:
        return b""
    # If a disk's name ends in a digit, its partitions have a p before their number
    return disk[:-1] if disk.endswith(b"p") and disk[-2:-1].isdigit() else disk


def read(host: MeasuredHost) -> Mapping[bytes, DiskCounters]:
    return parse(host.proc.read("diskstats"))


def read_psutil(psutil: Any) -> Mapping[bytes, DiskCounters]:
    """Return the counters of all whole disks. Some systems, such as macOS, don't count the time that a disk is busy."""
    disks = {name.encode(): disk for name, disk in (psutil.disk_io_counters(perdisk=True) or {}).items()}
    return {
        name: DiskCounters(
            disks[name].read_count + disks[name].write_count,
            disks[name].read_time + disks[name].write_time,
            getattr(disks[name], "busy_time", None),
        )
        for name in _whole_disks(disks)
    }


def values(
    before: Mapping[bytes, DiskCounters] | None, now: Mapping[bytes, DiskCounters], seconds: float
) -> MetricValues:
    """Return the metrics of the disk that was busiest since ``before``.

    If several disks are equally busy, the one with the most requests is chosen.
    """
    if not now:
        why = "this host has no disk"
        return {"disk_busy": why, "disk_await": why}
    if before is None or seconds <= 0:
        return {}
    busiest = max((_since(before[name], disk) for name, disk in now.items() if name in before), default=None)
    if busiest is None:
        return {}
    busy, requests, waited = busiest
    known = all(disk.busy is not None for disk in now.values())
    return {
        "disk_busy": min(100.0, 100.0 * busy / (seconds * 1000.0)) if known else "the system does not report busy time",
        "disk_await": waited / requests if requests else 0.0,
    }


def _since(before: DiskCounters, now: DiskCounters) -> tuple[int, int, int]:
    """Return the increases in busy time (ms), requests and request time (ms).

    If a counter has overflowed, all three increases are 0.
    """
    busy = (now.busy or 0) - (before.busy or 0)
    since = busy, now.requests - before.requests, now.waited - before.waited
    return since if min(since) >= 0 else (0, 0, 0)


SENSOR: Final = Sensor("/proc/diskstats", read, values, read_psutil=read_psutil)
