"""mem_available: memory available without swapping, as a percentage of the host's memory or of the cgroup's limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor, newest_value

KIB: Final = 1024
QUICK_READ_INTERVAL: Final = 1.0  # seconds: it takes a while to use up gigabytes


@dataclass(frozen=True)
class HostMemory:
    """The host's total and available memory, in bytes."""

    total: int
    available: int


def parse(text: bytes) -> HostMemory:
    """Return MemTotal and MemAvailable from /proc/meminfo (proc_meminfo(5)).

    Raises ValueError. Before Linux 3.14, MemAvailable is estimated as the sum of free memory, buffers and page cache.
    The estimate is too high, because the page cache includes shared memory.
    """
    found: dict[bytes, int] = {}
    for line in text.split(b"\n", 8)[:8]:
        name, _, rest = line.partition(b":")
        number = rest.split(None, 1)
        if number:
            found[name] = int(number[0]) * KIB
    if b"MemTotal" not in found or found[b"MemTotal"] <= 0:
        raise ValueError("the file contains no MemTotal")
    available = found.get(b"MemAvailable")
    if available is None:
        available = sum(found.get(name, 0) for name in (b"MemFree", b"Buffers", b"Cached"))
    return HostMemory(found[b"MemTotal"], available)


def read(host: MeasuredHost) -> float:
    """Return the available memory as a percentage of the host's memory or of the cgroup's limit.

    Raises OSError or ValueError.
    """
    memory = parse(host.proc.read("meminfo"))
    if host.group is not None and host.group.counts:
        of_group = host.group.memory_available(memory.available, memory.total)
        if of_group is not None:
            return of_group
    return _percent(memory)


def read_psutil(psutil: Any) -> float:
    memory = psutil.virtual_memory()
    return _percent(HostMemory(memory.total, memory.available))


def _percent(memory: HostMemory) -> float:
    return 100.0 * min(memory.available, memory.total) / memory.total


def quick_read(host: MeasuredHost) -> MetricValues:
    return {"mem_available": read(host)}


SENSOR: Final = Sensor(
    "/proc/meminfo",
    read,
    newest_value("mem_available"),
    momentary=True,
    quick_read=quick_read,
    quick_read_interval=QUICK_READ_INTERVAL,
    read_psutil=read_psutil,
)
