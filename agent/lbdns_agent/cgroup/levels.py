"""One control group as its controllers show it, version 1 and 2 alike: CPU quota and time, memory limit and use."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from lbdns_agent.cgroup.files import byte_limit, cfs_quota, cpu_max, keyed
from lbdns_agent.kernel_file import KernelFile


class CpuLevel(Protocol):
    """A group in the hierarchy that limits the CPU. All methods raise OSError, ValueError."""

    directory: Path
    tasks_file: str  # the name of the file with its threads

    def quota(self) -> float | None:
        """Cores; None without a quota."""

    def used(self) -> float | None:
        """CPU seconds, cumulative, of the group and all below; None where the kernel doesn't tell."""

    def throttled(self) -> float:
        """Seconds that its processors were held back, cumulative."""


class MemoryLevel(Protocol):
    """A group in the hierarchy that limits memory. All methods raise OSError, ValueError."""

    def limit(self) -> int | None:
        """Bytes; None without a limit."""

    def held(self) -> int:
        """Bytes in use that can't be had back by dropping caches."""

    def scanned(self) -> int | None:
        """Pages scanned for reclaim, cumulative; None where the kernel doesn't tell."""


class CpuV2:
    """cpu.max and cpu.stat (cgroup-v2.rst, "CPU Interface Files")."""

    tasks_file = "cgroup.threads"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._max = KernelFile(directory / "cpu.max")
        self._stat = KernelFile(directory / "cpu.stat")

    def quota(self) -> float | None:
        try:
            return cpu_max(self._max.read())
        except FileNotFoundError:
            return None  # the root group, and every group for which the controller is not enabled

    def used(self) -> float | None:
        usage = keyed(self._stat.read()).get(b"usage_usec")
        return None if usage is None else usage / 1e6

    def throttled(self) -> float:
        return keyed(self._stat.read()).get(b"throttled_usec", 0) / 1e6


class CpuV1:
    """The cpu and the cpuacct controller (sched-bwc.rst, cpuacct.rst), which may be mounted apart."""

    tasks_file = "tasks"

    def __init__(self, directory: Path, accounting: Path | None) -> None:
        self.directory = directory
        self._quota = KernelFile(directory / "cpu.cfs_quota_us")
        self._period = KernelFile(directory / "cpu.cfs_period_us")
        self._stat = KernelFile(directory / "cpu.stat")
        self._usage = None if accounting is None else KernelFile(accounting / "cpuacct.usage")

    def quota(self) -> float | None:
        try:
            return cfs_quota(self._quota.read(), self._period.read())
        except FileNotFoundError:
            return None  # a kernel without CONFIG_CFS_BANDWIDTH

    def used(self) -> float | None:
        return None if self._usage is None else int(self._usage.read()) / 1e9

    def throttled(self) -> float:
        return keyed(self._stat.read()).get(b"throttled_time", 0) / 1e9


class MemoryV2:
    """memory.max, memory.current and memory.stat (cgroup-v2.rst, "Memory Interface Files")."""

    def __init__(self, directory: Path) -> None:
        self._max = KernelFile(directory / "memory.max")
        self._current = KernelFile(directory / "memory.current")
        self._stat = KernelFile(directory / "memory.stat")

    def limit(self) -> int | None:
        try:
            return byte_limit(self._max.read())
        except FileNotFoundError:
            return None

    def held(self) -> int:
        stat = keyed(self._stat.read())
        droppable = sum(stat.get(key, 0) for key in (b"inactive_file", b"active_file", b"slab_reclaimable"))
        return max(0, int(self._current.read()) - droppable)

    def scanned(self) -> int | None:
        try:
            stat = keyed(self._stat.read())
        except FileNotFoundError:
            return None
        # Since Linux 6.0 by who scans; before, the sum alone
        parts = [stat[key] for key in (b"pgscan_kswapd", b"pgscan_direct", b"pgscan_khugepaged") if key in stat]
        return sum(parts) if parts else stat.get(b"pgscan")


class MemoryV1:
    """The memory controller (cgroup-v1/memory.rst), which doesn't tell what it scans."""

    def __init__(self, directory: Path) -> None:
        self._limit = KernelFile(directory / "memory.limit_in_bytes")
        self._usage = KernelFile(directory / "memory.usage_in_bytes")
        self._stat = KernelFile(directory / "memory.stat")

    def limit(self) -> int | None:
        try:
            return byte_limit(self._limit.read())
        except FileNotFoundError:
            return None

    def held(self) -> int:
        stat = keyed(self._stat.read())
        droppable = stat.get(b"total_inactive_file", 0) + stat.get(b"total_active_file", 0)
        return max(0, int(self._usage.read()) - droppable)

    def scanned(self) -> int | None:
        return None
