"""The control group that limits this host, or this agent: its quota in the place of the host's processors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lbdns_agent.cgroup.levels import CpuLevel, MemoryLevel
from lbdns_agent.cgroup.tasks import GroupTasks


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """The CPU time of the limiting group, cumulative seconds, and its quota in cores."""

    directory: Path
    quota: float
    used: float
    throttled: float


class Group:
    """A group and its ancestors, the group first in both hierarchies.

    ``always``: it was named by the administrator, so its tasks and its memory count even without a CPU quota.
    ``host_cores`` bounds what counts as a quota: a higher one limits nothing. Everything raises OSError and
    ValueError when a group's files can't be read.
    """

    def __init__(
        self,
        cpu: Sequence[CpuLevel],
        memory: Sequence[MemoryLevel],
        host_cores: int,
        always: bool = False,
        proc: str = "/proc",
    ) -> None:
        self._cpu = tuple(cpu)
        self._memory = tuple(memory)
        self._host_cores = host_cores
        self._always = always
        self._proc = proc
        self._limit: tuple[CpuLevel, float] | None = None
        self._limit_known = False
        self._tasks: tuple[Path, GroupTasks] | None = None
        self._tasks_read = False

    def new_round(self) -> None:
        """What is asked for from now on is read anew."""
        self._limit_known = self._tasks_read = False

    @property
    def counts(self) -> bool:
        """Whether the tasks and the memory of the group are to be reported, not the host's."""
        return self._always or self.quota() is not None

    def quota(self) -> float | None:
        """The tightest quota of the group and its ancestors in cores; None when nothing limits."""
        limit = self._tightest()
        return limit[1] if limit else None

    def times(self) -> GroupTimes | None:
        """The times of the group with the tightest quota: that of an ancestor is shared by all below it."""
        limit = self._tightest()
        if limit is None:
            return None
        level, quota = limit
        used = level.used()
        return GroupTimes(
            level.directory, quota, self._read_tasks().seconds() if used is None else used, level.throttled()
        )

    def runnable(self) -> int:
        """Runnable threads of the limiting group and those below, the agent's own not counted."""
        own = {thread.native_id for thread in threading.enumerate() if thread.native_id is not None}
        return self._read_tasks().runnable(own)

    def scanned(self) -> int | None:
        """Pages scanned for reclaim in the group, cumulative; None where the kernel doesn't tell."""
        return self._memory[0].scanned() if self._memory else None

    def memory_available(self, host_available: int, host_total: int) -> float | None:
        """Memory that can be had without reclaim of what is in use, in % of the tightest limit; None without one.

        Bytes of the host: what it can't give is not available to a group either.
        """
        limits = [
            (limit, level) for level in self._memory if (limit := level.limit()) is not None and limit < host_total
        ]
        if not limits:
            return None
        total = min(limit for limit, _ in limits)
        available = min(host_available, *(limit - level.held() for limit, level in limits))
        return 100.0 * min(max(available, 0), total) / total if total else 0.0

    def _tightest(self) -> tuple[CpuLevel, float] | None:
        if not self._limit_known:
            quotas = [(level, quota) for level in self._cpu if (quota := level.quota()) is not None]
            tightest = min(quotas, key=lambda found: found[1], default=None)
            self._limit = tightest if tightest and tightest[1] < self._host_cores else None
            self._limit_known = True
        return self._limit

    def _read_tasks(self) -> GroupTasks:
        limit = self._tightest()
        level = limit[0] if limit else self._cpu[0]
        if self._tasks is None or self._tasks[0] != level.directory:
            self._tasks = (level.directory, GroupTasks(level.directory, level.tasks_file, self._proc))
            self._tasks_read = False
        tasks = self._tasks[1]
        if not self._tasks_read:
            tasks.read()
            self._tasks_read = True
        return tasks
