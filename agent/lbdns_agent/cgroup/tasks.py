"""The threads of a control group and those below: how many are runnable, what they have used."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from lbdns_agent.cgroup.mounts import subtree
from lbdns_agent.kernel_file import KernelFile
from lbdns_agent.process import TICKS_PER_SECOND, Stat, StatFile, parse

KEPT_OPEN: Final = 256  # threads; a soft limit of 1024 open files is usual
LOOK_AGAIN: Final = 5.0  # seconds until groups made or removed below are noticed


class GroupTasks:
    """The threads below one directory of a hierarchy; ``file_name`` lists them in each group."""

    def __init__(self, directory: Path, file_name: str, proc: str = "/proc") -> None:
        self._directory = directory
        self._file_name = file_name
        self._proc = proc
        self._look_again = 0.0
        self._lists: dict[Path, KernelFile] = {}
        self._stat_files: dict[int, StatFile] = {}
        self._stats: dict[int, Stat] = {}
        self._used = 0  # ticks

    def read(self) -> None:
        """Read every thread once. Raises OSError when the group itself is gone."""
        files: dict[int, StatFile] = {}
        stats: dict[int, Stat] = {}
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

    def runnable(self, without: Collection[int]) -> int:
        """Threads that run or could run (state R) at the last reading, ``without`` these."""
        return sum(stat.state == "R" for thread, stat in self._stats.items() if thread not in without)

    def seconds(self) -> float:
        """CPU seconds of the threads that lived from one reading to the next, summed up: the best there is where
        no cpuacct controller counts for the group. What lives shorter is missed.
        """
        return self._used / TICKS_PER_SECOND

    def _threads(self) -> list[int]:
        if (now := time.monotonic()) >= self._look_again:
            self._look_again = now + LOOK_AGAIN
            groups = subtree(self._directory)
            for gone in self._lists.keys() - set(groups):
                self._lists.pop(gone).close()
            for group in groups:
                self._lists.setdefault(group, KernelFile(group / self._file_name))
        found: list[int] = []
        for group, file in self._lists.items():
            try:
                found += map(int, file.read().split())
            except OSError:
                self._look_again = 0.0
                if group == self._directory:
                    raise
        return found

    def _open(self, thread: int, kept: int) -> StatFile | None:
        try:
            # The thread's own file: /proc/THREAD/stat would sum up all threads of its process
            return StatFile(f"{self._proc}/{thread}/task/{thread}/stat", keep=kept < KEPT_OPEN)
        except OSError:
            return None
