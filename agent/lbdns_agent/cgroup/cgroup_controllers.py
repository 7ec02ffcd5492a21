"""Reads a control group's cpu and memory controllers (version 1 or 2): quota, CPU time, memory limit and memory use."""

from __future__ import annotations

from pathlib import Path

from lbdns_agent.kernel_files import KernelFile


def parse_flat_keyed(text: bytes) -> dict[bytes, int]:
    """Parse a flat-keyed file: one ``KEY NUMBER`` pair per line (cgroup-v2.rst, "Format"). Raises ValueError."""
    lines = (line.partition(b" ") for line in text.splitlines())
    return {name: int(value) for name, separator, value in lines if separator}


def parse_cpu_max(text: bytes) -> float | None:
    """Return the quota in cores from cpu.max (``QUOTA PERIOD`` in microseconds), or None if it is ``max``.

    Raises ValueError. Source: cgroup-v2.rst.
    """
    words = text.split()
    if len(words) != 2 or int(words[1]) <= 0:
        raise ValueError("cpu.max must contain 'QUOTA PERIOD'")
    return None if words[0] == b"max" else int(words[0]) / int(words[1])


def parse_cfs_quota(quota: bytes, period: bytes) -> float | None:
    """Return the quota in cores from cpu.cfs_quota_us and cpu.cfs_period_us, or None if there is no quota (-1).

    Raises ValueError. Source: sched-bwc.rst.
    """
    cores, length = int(quota), int(period)
    if length <= 0:
        raise ValueError("the period must be positive")
    return None if cores < 0 else cores / length


def parse_byte_limit(text: bytes) -> int | None:
    """Return a memory limit in bytes, or None if there is no limit.

    Without a limit, the text is ``max`` in version 2, or a huge number in version 1 (memory.rst).

    Raises ValueError.

    """
    limit = None if text.strip() == b"max" else int(text)
    return None if limit is None or limit >= 2**62 else limit


class CpuController:
    """The cpu controller of a version 2 group, which reads cpu.max and cpu.stat (cgroup-v2.rst, "CPU Interface Files").

    All methods may raise OSError or ValueError.
    """

    tasks_file = "cgroup.threads"  # lists the group's threads

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._max = KernelFile(directory / "cpu.max")
        self._stat = KernelFile(directory / "cpu.stat")

    def quota(self) -> float | None:
        """Return the quota in cores, or None if there is no quota."""
        try:
            return parse_cpu_max(self._max.read())
        except FileNotFoundError:
            return None  # the root group, or a group without the controller

    def used(self) -> float | None:
        """Return the CPU time (s) used by the group and its descendants, or None if CPU time isn't counted."""
        usage = parse_flat_keyed(self._stat.read()).get(b"usage_usec")
        return None if usage is None else usage / 1e6

    def throttled(self) -> float:
        """Return the total time in seconds for which the group has been throttled."""
        return parse_flat_keyed(self._stat.read()).get(b"throttled_usec", 0) / 1e6


class CpuControllerV1(CpuController):
    """The cpu and cpuacct controllers of a version 1 group (sched-bwc.rst, cpuacct.rst).

    The two controllers may be mounted separately.
    """

    tasks_file = "tasks"

    def __init__(self, directory: Path, accounting: Path | None) -> None:
        super().__init__(directory)
        self._quota = KernelFile(directory / "cpu.cfs_quota_us")
        self._period = KernelFile(directory / "cpu.cfs_period_us")
        self._usage = None if accounting is None else KernelFile(accounting / "cpuacct.usage")

    def quota(self) -> float | None:
        try:
            return parse_cfs_quota(self._quota.read(), self._period.read())
        except FileNotFoundError:
            return None  # a kernel without CONFIG_CFS_BANDWIDTH

    def used(self) -> float | None:
        return None if self._usage is None else int(self._usage.read()) / 1e9

    def throttled(self) -> float:
        return parse_flat_keyed(self._stat.read()).get(b"throttled_time", 0) / 1e9


class MemoryController:
    """The memory controller of a version 2 group (cgroup-v2.rst, "Memory Interface Files").

    All methods may raise OSError or ValueError.
    """

    files: tuple[str, str] = ("memory.max", "memory.current")
    droppable: tuple[bytes, ...] = (b"inactive_file", b"active_file", b"slab_reclaimable")

    def __init__(self, directory: Path) -> None:
        self._limit, self._usage = (KernelFile(directory / name) for name in self.files)
        self._stat = KernelFile(directory / "memory.stat")

    def limit(self) -> int | None:
        """Return the limit in bytes, or None if there is no limit."""
        try:
            return parse_byte_limit(self._limit.read())
        except FileNotFoundError:
            return None

    def held(self) -> int:
        """Return the group's memory use in bytes, excluding caches that the kernel could drop."""
        stat = parse_flat_keyed(self._stat.read())
        return max(0, int(self._usage.read()) - sum(stat.get(key, 0) for key in self.droppable))

    def scanned(self) -> int | None:
        """Return the total number of pages scanned for reclaim, or None if the kernel doesn't count them."""
        try:
            stat = parse_flat_keyed(self._stat.read())
        except FileNotFoundError:
            return None
        # Linux 6.0 and later count each scanner separately; earlier kernels count only the sum
        parts = [stat[key] for key in (b"pgscan_kswapd", b"pgscan_direct", b"pgscan_khugepaged") if key in stat]
        return sum(parts) if parts else stat.get(b"pgscan")


class MemoryControllerV1(MemoryController):
    """The memory controller of a version 1 group (cgroup-v1/memory.rst), which does not count scanned pages."""

    files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    droppable = (b"total_inactive_file", b"total_active_file")

    def scanned(self) -> int | None:
        return None
