"""The cpu and memory controllers of one control group, version 1 and 2: quota, CPU time, memory limit and use."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lbdns_agent.cgroup.cgroup_files import parse_byte_limit, parse_cfs_quota, parse_cpu_max, parse_flat_keyed
from lbdns_agent.kernel_files import KernelFile


class CpuController(Protocol):
    """The cpu controller of one group. All methods raise OSError, ValueError."""

    directory: Path
    tasks_file: str  # name of the file that lists its threads

    def quota(self) -> float | None:
        """Return the quota in cores, or None without a quota."""

    def used(self) -> float | None:
        """Return the cumulative CPU seconds of the group and all below it, or None if the kernel doesn't count them."""

    def throttled(self) -> float:
        """Return the cumulative seconds during which the group was throttled."""


class MemoryController(Protocol):
    """The memory controller of one group. All methods raise OSError, ValueError."""

    def limit(self) -> int | None:
        """Return the limit in bytes, or None without a limit."""

    def held(self) -> int:
        """Return the bytes in use that dropping caches would not free."""

    def scanned(self) -> int | None:
        """Return the cumulative number of pages scanned for reclaim, or None if the kernel doesn't count them."""


class CpuControllerV2:
    """cpu.max and cpu.stat (cgroup-v2.rst, "CPU Interface Files")."""

    tasks_file = "cgroup.threads"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._max = KernelFile(directory / "cpu.max")
        self._stat = KernelFile(directory / "cpu.stat")

    def quota(self) -> float | None:
        try:
            return parse_cpu_max(self._max.read())
        except FileNotFoundError:
            return None  # the root group, or a group without the controller

    def used(self) -> float | None:
        usage = parse_flat_keyed(self._stat.read()).get(b"usage_usec")
        return None if usage is None else usage / 1e6

    def throttled(self) -> float:
        return parse_flat_keyed(self._stat.read()).get(b"throttled_usec", 0) / 1e6


class CpuControllerV1:
    """The cpu and the cpuacct controller (sched-bwc.rst, cpuacct.rst), which may be mounted separately."""

    tasks_file = "tasks"

    def __init__(self, directory: Path, accounting: Path | None) -> None:
        self.directory = directory
        self._quota = KernelFile(directory / "cpu.cfs_quota_us")
        self._period = KernelFile(directory / "cpu.cfs_period_us")
        self._stat = KernelFile(directory / "cpu.stat")
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


class MemoryControllerV2:
    """memory.max, memory.current and memory.stat (cgroup-v2.rst, "Memory Interface Files")."""

    def __init__(self, directory: Path) -> None:
        self._max = KernelFile(directory / "memory.max")
        self._current = KernelFile(directory / "memory.current")
        self._stat = KernelFile(directory / "memory.stat")

    def limit(self) -> int | None:
        try:
            return parse_byte_limit(self._max.read())
        except FileNotFoundError:
            return None

    def held(self) -> int:
        stat = parse_flat_keyed(self._stat.read())
        droppable = sum(stat.get(key, 0) for key in (b"inactive_file", b"active_file", b"slab_reclaimable"))
        return max(0, int(self._current.read()) - droppable)

    def scanned(self) -> int | None:
        try:
            stat = parse_flat_keyed(self._stat.read())
        except FileNotFoundError:
            return None
        # Since Linux 6.0 one counter for each scanner; before, only their sum
        parts = [stat[key] for key in (b"pgscan_kswapd", b"pgscan_direct", b"pgscan_khugepaged") if key in stat]
        return sum(parts) if parts else stat.get(b"pgscan")


class MemoryControllerV1:
    """The memory controller (cgroup-v1/memory.rst), which doesn't count scanned pages."""

    def __init__(self, directory: Path) -> None:
        self._limit = KernelFile(directory / "memory.limit_in_bytes")
        self._usage = KernelFile(directory / "memory.usage_in_bytes")
        self._stat = KernelFile(directory / "memory.stat")

    def limit(self) -> int | None:
        try:
            return parse_byte_limit(self._limit.read())
        except FileNotFoundError:
            return None

    def held(self) -> int:
        stat = parse_flat_keyed(self._stat.read())
        droppable = stat.get(b"total_inactive_file", 0) + stat.get(b"total_active_file", 0)
        return max(0, int(self._usage.read()) - droppable)

    def scanned(self) -> int | None:
        return None
