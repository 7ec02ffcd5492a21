"""Counts the threads in a given state in a control group and its descendants, and adds up the threads' CPU times."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from lbdns_agent.cgroup.cgroup_mounts import cgroup_subtree
from lbdns_agent.kernel_files import KernelFile
from lbdns_agent.process_stat import KEPT_OPEN, TICKS_PER_SECOND, ProcessStat, ProcessStatFile, parse

SEARCH_INTERVAL: Final = 5.0  # seconds between two searches for groups that were created or removed below


class CgroupThreads:
    """A reader for the stat files of all threads in a control group and its descendants.

    The file ``file_name`` in each group's directory lists the group's threads.
    """

    def __init__(self, directory: Path, file_name: str, proc: str = "/proc") -> None:
        self._directory = directory
        self._file_name = file_name
        self._proc = proc
        self._next_search = 0.0
        self._lists: dict[Path, KernelFile] = {}
        self._stat_files: dict[int, ProcessStatFile] = {}
        self._stats: dict[int, ProcessStat] = {}
        self._used = 0  # ticks

    def read(self) -> None:
        """Read the stat file of every thread. Raises OSError if the group itself has been removed."""
        files: dict[int, ProcessStatFile] = {}
        stats: dict[int, ProcessStat] = {}
        for thread in self._threads():
            file = self._stat_files.pop(thread, None) or self._open(thread, len(files))
            if file is None:
                continue
            if line := file.read():
                files[thread], stats[thread] = file, parse(line)
            else:
                file.close()
        for file in self._stat_files.values():
            file.close()
        self._used += sum(
            max(0, stat.used - self._stats[thread].used) for thread, stat in stats.items() if thread in self._stats
        )
        self._stat_files, self._stats = files, stats

    def in_state(self, state: str, without: Collection[int] = ()) -> int:
        """Return the number of threads in ``state`` at the last read, excluding the threads in ``without``.

        The state is a letter of proc_pid_stat(5), such as R for runnable threads.
        """
        return sum(stat.state == state for thread, stat in self._stats.items() if thread not in without)

    def seconds(self) -> float:
        """Return the CPU time in seconds that the threads have used since the first call of ``read``.

        The result excludes threads that start and end between two reads. The agent calls this method only if no cpuacct
        controller is available.
        """
        return self._used / TICKS_PER_SECOND

    def _threads(self) -> list[int]:
        if (now := time.monotonic()) >= self._next_search:
            self._next_search = now + SEARCH_INTERVAL
            groups = cgroup_subtree(self._directory)
            for gone in self._lists.keys() - set(groups):
                self._lists.pop(gone).close()
            for group in groups:
                self._lists.setdefault(group, KernelFile(group / self._file_name))
        found: list[int] = []
        for group, file in self._lists.items():
            try:
                found += map(int, file.read().split())
            except OSError:
                self._next_search = 0.0
                if group == self._directory:
                    raise
        return found

    def _open(self, thread: int, kept: int) -> ProcessStatFile | None:
        try:
            # Not /proc/THREAD/stat: that is the sum over all threads of the process
            return ProcessStatFile(f"{self._proc}/{thread}/task/{thread}/stat", keep=kept < KEPT_OPEN)
        except OSError:
            return None
