"""page_in and page_out: bytes/s that the kernel reads from disks and writes to disks, whether for files or for swap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor, rate

KIB: Final = 1024


@dataclass(frozen=True)
class PagedBytes:
    """The bytes that the host has paged in and out since boot."""

    read: int
    written: int


def parse(text: bytes) -> PagedBytes:
    """Return pgpgin and pgpgout from /proc/vmstat, which count KiB despite their names (mm/vmstat.c).

    Raises ValueError.
    """
    _, found, rest = text.partition(b"\npgpgin ")
    words = rest.split(None, 3)  # pgpgout is the next line
    if not found or len(words) < 3 or words[1] != b"pgpgout":
        raise ValueError("the file must contain pgpgin, followed by pgpgout")
    return PagedBytes(int(words[0]) * KIB, int(words[2]) * KIB)


def read(host: MeasuredHost) -> PagedBytes:
    return parse(host.proc.read("vmstat"))


def values(before: PagedBytes | None, now: PagedBytes, seconds: float) -> MetricValues:
    if before is None or seconds <= 0:
        return {}
    return {"page_in": rate(before.read, now.read, seconds), "page_out": rate(before.written, now.written, seconds)}


SENSOR: Final = Sensor("/proc/vmstat", read, values)
