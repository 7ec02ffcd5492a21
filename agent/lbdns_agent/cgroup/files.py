"""The forms of a control group's files. Pure."""

from __future__ import annotations


def keyed(text: bytes) -> dict[bytes, int]:
    """A flat-keyed file, ``KEY NUMBER`` a line (cgroup-v2.rst, "Format"). Raises ValueError."""
    found = {}
    for line in text.splitlines():
        name, separator, value = line.partition(b" ")
        if separator:
            found[name] = int(value)
    return found


def cpu_max(text: bytes) -> float | None:
    """Cores by a cpu.max, ``QUOTA PERIOD`` in microseconds; None for ``max`` (cgroup-v2.rst). Raises ValueError."""
    words = text.split()
    if len(words) != 2 or int(words[1]) <= 0:
        raise ValueError("no cpu.max: expected 'QUOTA PERIOD'")
    return None if words[0] == b"max" else int(words[0]) / int(words[1])


def cfs_quota(quota: bytes, period: bytes) -> float | None:
    """Cores by cpu.cfs_quota_us and cpu.cfs_period_us, microseconds; None for -1 (sched-bwc.rst). Raises ValueError."""
    cores, length = int(quota), int(period)
    if length <= 0:
        raise ValueError("the period is not positive")
    return None if cores < 0 else cores / length


def byte_limit(text: bytes) -> int | None:
    """A limit in bytes; None for ``max`` and for version 1's 2^63 less a page (memory.rst). Raises ValueError."""
    limit = None if text.strip() == b"max" else int(text)
    return None if limit is None or limit >= 2**62 else limit
