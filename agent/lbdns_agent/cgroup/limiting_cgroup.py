"""Reads the quota, CPU time, tasks and memory of the control group that limits this host or this agent."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lbdns_agent.cgroup.cgroup_controllers import CpuController, MemoryController
from lbdns_agent.cgroup.cgroup_threads import CgroupThreads


@dataclass(frozen=True)
class QuotaTimes:
    """The limiting group's quota (cores), used CPU time (s) and throttled time (s)."""

    directory: Path
    quota: float
    used: float
    throttled: float


class LimitingCgroup:
    """A control group and its ancestors.

    ``cpu`` and ``memory`` list the controllers of the group and its ancestors, beginning with the group's own.

    ``always`` is true if the administrator named the group; its tasks and memory are then reported even without a CPU
    quota. A quota of at least ``host_cores`` cores has no effect and is ignored. All methods raise OSError or
    ValueError if the group's files can't be read.

    """

    def __init__(
        self,
        cpu: Sequence[CpuController],
        memory: Sequence[MemoryController],
        host_cores: int,
        always: bool = False,
        proc: str = "/proc",
    ) -> None:
        self._cpu = tuple(cpu)
        self._memory = tuple(memory)
        self._host_cores = host_cores
        self._always = always
        self._proc = proc
        self._limit: tuple[CpuController, float] | None = None
        self._limit_known = False
        self._tasks: tuple[Path, CgroupThreads] | None = None
        self._tasks_read = False

    def start_round(self) -> None:
        """Discard the cached values, so that the next call reads the files again."""
        self._limit_known = self._tasks_read = False

    @property
    def counts(self) -> bool:
        """Whether the agent must report the group's tasks and memory instead of the host's."""
        return self._always or self.quota() is not None

    def quota(self) -> float | None:
        """Return the lowest quota (in cores) of the group and its ancestors, or None if none of them has one."""
        limit = self._tightest()
        return limit[1] if limit else None

    def times(self) -> QuotaTimes | None:
        """Return the CPU times of the group with the lowest quota, or None if there is no quota.

        If the limiting group is an ancestor, all of its descendants share the quota.
        """
        limit = self._tightest()
        if limit is None:
            return None
        level, quota = limit
        used = level.used()
        return QuotaTimes(
            level.directory, quota, self._read_tasks().seconds() if used is None else used, level.throttled()
        )

    def runnable(self) -> int:
        """Return the number of runnable threads in the group and its descendants, excluding the agent's own threads."""
        own = {thread.native_id for thread in threading.enumerate() if thread.native_id is not None}
        return self._read_tasks().in_state("R", own)

    def blocked(self) -> int:
        """Return the number of threads in uninterruptible sleep in the group and its descendants."""
        return self._read_tasks().in_state("D")

    def scanned(self) -> int | None:
        """Return the total number of pages scanned for reclaim, or None if the kernel doesn't count them."""
        return self._memory[0].scanned() if self._memory else None

    def memory_available(self, host_available: int, host_total: int) -> float | None:
        """Return the memory available without swapping as a percentage of the lowest limit, or None if there is no
        limit.

        The arguments are in bytes. A group's available memory never exceeds the host's.
        """
        limits = [
            (limit, level) for level in self._memory if (limit := level.limit()) is not None and limit < host_total
        ]
        if not limits:
            return None
        total = min(limit for limit, _ in limits)
        available = min(host_available, *(limit - level.held() for limit, level in limits))
        return 100.0 * min(max(available, 0), total) / total if total else 0.0

    def _tightest(self) -> tuple[CpuController, float] | None:
        if not self._limit_known:
            quotas = [(level, quota) for level in self._cpu if (quota := level.quota()) is not None]
            tightest = min(quotas, key=lambda found: found[1], default=None)
            self._limit = tightest if tightest and tightest[1] < self._host_cores else None
            self._limit_known = True
        return self._limit

    def _read_tasks(self) -> CgroupThreads:
        limit = self._tightest()
        level = limit[0] if limit else self._cpu[0]
        if self._tasks is None or self._tasks[0] != level.directory:
            self._tasks = (level.directory, CgroupThreads(level.directory, level.tasks_file, self._proc))
            self._tasks_read = False
        tasks = self._tasks[1]
        if not self._tasks_read:
            tasks.read()
            self._tasks_read = True
        return tasks
