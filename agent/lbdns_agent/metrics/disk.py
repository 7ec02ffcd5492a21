"""disk_busy and disk_await: how long the busiest disk was at work, in %, and the mean time of its requests, in ms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values

# No disks: memory, removable media, and what stands on disks that have their own line (RAID, device mapper)
_NO_DISK = re.compile(rb"(?:ram|loop|zram|sr|fd|md|dm-|mtdblock)\d")


@dataclass(frozen=True, slots=True)
class Disk:
    """Since the start: requests done, ms that they took, ms in which there were any."""

    requests: int
    waited: int
    busy: int


def parse(text: bytes) -> dict[bytes, Disk]:
    """The whole disks of a /proc/diskstats (admin-guide/iostats.rst). Raises ValueError.

    14 fields, 18 with discards since Linux 4.18, 20 with flushes since 5.5. Partitions are left out by their
    names: sda1 beside sda, nvme0n1p1 beside nvme0n1.
    """
    lines = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14 and not _NO_DISK.match(fields[2]):
            lines[fields[2]] = [int(field) for field in fields[3:]]
    found = {}
    for name, numbers in lines.items():
        if _whole_disk(name) in lines:
            continue
        discards, discarding = (numbers[11], numbers[14]) if len(numbers) >= 15 else (0, 0)
        requests = numbers[0] + numbers[4] + discards
        found[name] = Disk(requests, numbers[3] + numbers[7] + discarding, numbers[9])
    return found


def _whole_disk(name: bytes) -> bytes:
    """The disk that ``name`` would be a partition of (block/partitions: disk_name), or nothing."""
    disk = name.rstrip(b"0123456789")
    if disk == name:
        return b""
    # A disk whose own name ends in a digit has a p before the number
    return disk[:-1] if disk.endswith(b"p") and disk[-2:-1].isdigit() else disk


def read(host: Host) -> Mapping[bytes, Disk]:
    return parse(host.proc.read("diskstats"))


def values(before: Mapping[bytes, Disk] | None, now: Mapping[bytes, Disk], seconds: float) -> Values:
    """Of the disk that was busiest since ``before``; of equally busy ones that with more requests."""
    if not now:
        why = "there is no disk in /proc/diskstats"
        return {"disk_busy": why, "disk_await": why}
    if before is None or seconds <= 0:
        return {}
    busiest = max((_since(before[name], disk) for name, disk in now.items() if name in before), default=None)
    if busiest is None:
        return {}
    busy, requests, waited = busiest
    return {
        "disk_busy": min(100.0, 100.0 * busy / (seconds * 1000.0)),
        "disk_await": waited / requests if requests else 0.0,
    }


def _since(before: Disk, now: Disk) -> tuple[int, int, int]:
    """Busy ms, requests, and ms that these took; nothing for counters that fell back (32 bits run over)."""
    busy, requests, waited = now.busy - before.busy, now.requests - before.requests, now.waited - before.waited
    return (busy, requests, waited) if busy >= 0 and requests >= 0 and waited >= 0 else (0, 0, 0)


SENSOR: Final = Sensor("/proc/diskstats", read, values)
