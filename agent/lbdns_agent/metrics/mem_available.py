"""mem_available: memory that can be had without swapping, in % of the host's, or of the cgroup's limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lbdns_agent.host import Host
from lbdns_agent.sensor import Sensor, Values

KIB: Final = 1024
GLANCE_EVERY: Final = 1.0  # seconds: to use up gigabytes takes a while


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes."""

    total: int
    available: int


def parse(text: bytes) -> Memory:
    """MemTotal and MemAvailable of a /proc/meminfo (proc_meminfo(5)). Raises ValueError.

    Before Linux 3.14 there is no MemAvailable: free memory, buffers and page cache stand for it, too much by
    what is shared memory.
    """
    found: dict[bytes, int] = {}
    for line in text.split(b"\n", 8)[:8]:
        name, _, rest = line.partition(b":")
        number = rest.split(None, 1)
        if number:
            found[name] = int(number[0]) * KIB
    if b"MemTotal" not in found or found[b"MemTotal"] <= 0:
        raise ValueError("no /proc/meminfo: it has no MemTotal")
    available = found.get(b"MemAvailable")
    if available is None:
        available = sum(found.get(name, 0) for name in (b"MemFree", b"Buffers", b"Cached"))
    return Memory(found[b"MemTotal"], available)


def read(host: Host) -> float:
    """Percent. Raises OSError, ValueError."""
    memory = parse(host.proc.read("meminfo"))
    if host.group is not None and host.group.counts:
        of_group = host.group.memory_available(memory.available, memory.total)
        if of_group is not None:
            return of_group
    return 100.0 * min(memory.available, memory.total) / memory.total


def values(before: float | None, now: float, seconds: float) -> Values:
    return {"mem_available": now}


def glance(host: Host) -> Values:
    return {"mem_available": read(host)}


SENSOR: Final = Sensor("/proc/meminfo", read, values, momentary=True, glance=glance, glance_every=GLANCE_EVERY)
