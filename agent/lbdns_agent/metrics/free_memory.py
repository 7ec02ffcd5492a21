"""mem_free and swap_free: the bytes of memory that nothing uses, and the bytes of free swap space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from lbdns_agent.sensor import MeasuredHost, MetricValues, Sensor

KIB: Final = 1024


@dataclass(frozen=True)
class FreeMemory:
    """The host's free memory and free swap space, in bytes."""

    memory: int
    swap: int


def parse(text: bytes) -> FreeMemory:
    """Return MemFree and SwapFree from /proc/meminfo (proc_meminfo(5)). Raises ValueError."""
    return FreeMemory(_bytes(text, b"\nMemFree:"), _bytes(text, b"\nSwapFree:"))


def _bytes(text: bytes, name: bytes) -> int:
    words = text.partition(name)[2].split(None, 1)
    if not words:
        raise ValueError("the file must contain MemFree and SwapFree, in kB")
    return int(words[0]) * KIB


def read(host: MeasuredHost) -> FreeMemory:
    return parse(host.proc.read("meminfo"))


def read_psutil(psutil: Any) -> FreeMemory:
    return FreeMemory(psutil.virtual_memory().free, psutil.swap_memory().free)


def values(before: FreeMemory | None, now: FreeMemory, seconds: float) -> MetricValues:
    return {"mem_free": float(now.memory), "swap_free": float(now.swap)}


SENSOR: Final = Sensor("/proc/meminfo", read, values, read_psutil=read_psutil)
