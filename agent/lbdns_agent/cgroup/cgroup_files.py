"""Parsers of the files of a control group. Pure."""

from __future__ import annotations


def parse_flat_keyed(text: bytes) -> dict[bytes, int]:
    """Return the numbers of a flat-keyed file, ``KEY NUMBER`` a line (cgroup-v2.rst, "Format"). Raises ValueError."""
    found = {}
    for line in text.splitlines():
        name, separator, value = line.partition(b" ")
        if separator:
            found[name] = int(value)
    return found


def parse_cpu_max(text: bytes) -> float | None:
    """Return the quota in cores from cpu.max, ``QUOTA PERIOD`` in microseconds, or None for ``max`` (cgroup-v2.rst).

    Raises ValueError.
    """
    words = text.split()
    if len(words) != 2 or int(words[1]) <= 0:
        raise ValueError("cpu.max must hold 'QUOTA PERIOD'")
    return None if words[0] == b"max" else int(words[0]) / int(words[1])


def parse_cfs_quota(quota: bytes, period: bytes) -> float | None:
    """Return the quota in cores from cpu.cfs_quota_us and cpu.cfs_period_us, or None for -1 (sched-bwc.rst).

    Raises ValueError.
    """
    cores, length = int(quota), int(period)
    if length <= 0:
        raise ValueError("the period must be positive")
    return None if cores < 0 else cores / length


def parse_byte_limit(text: bytes) -> int | None:
    """Return a limit in bytes, or None for ``max`` and for version 1's 2^63 minus a page (memory.rst).

    Raises ValueError.
    """
    limit = None if text.strip() == b"max" else int(text)
    return None if limit is None or limit >= 2**62 else limit
