"""Reads the /proc stat file of a process or thread (parent, state and CPU times), and traces its ancestors.

An open stat file always belongs to the process for which it was opened. After a process has exited, reads of its open
stat file fail, even if another process has reused its process ID.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from lbdns_agent.kernel_files import KernelFile, read_once, read_short

KEPT_OPEN: Final = 256  # files of processes, and as many of threads; the soft limit is usually 1024 open files
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessStat:
    """Selected fields of /proc/PID/stat (proc_pid_stat(5)), with times in clock ticks."""

    state: str
    parent: int
    used: int  # user and system time of its own threads
    waited_for: int  # user and system time of the children it has waited for, and of their children
    threads: int


def parse(line: bytes) -> ProcessStat:
    """Parse a stat line, in which the name in parentheses may contain any bytes. Raises ValueError. Pure."""
    fields = line[line.rfind(b")") + 2 :].split(None, 18)
    if len(fields) < 18:
        raise ValueError("the file is not the stat file of a process")
    return ProcessStat(
        fields[0].decode("ascii", "replace"),
        int(fields[1]),
        int(fields[11]) + int(fields[12]),
        int(fields[13]) + int(fields[14]),
        int(fields[17]),
    )


def read_process_stat(proc: str, pid: int) -> ProcessStat | None:
    """Read the stat file of one process. Return None if there is no such process."""
    try:
        return parse(read_once(f"{proc}/{pid}/stat"))
    except OSError:
        return None


def descends_from(proc: str, pid: int, roots: Collection[int]) -> bool:
    """Return whether process ``pid`` is in ``roots`` or descends from one of them.

    Returns True if ``pid`` has exited.
    """
    while pid not in roots:
        stat = read_process_stat(proc, pid)
        if stat is None:
            return True
        if stat.parent <= 1:
            return stat.parent in roots
        pid = stat.parent
    return True


class ProcessStatFile(KernelFile):
    """The stat file of one process or thread.

    If ``keep`` is true, the file stays open; otherwise, each read opens the file.
    """

    __slots__ = ()

    def __init__(self, path: str, keep: bool = True) -> None:
        """Raises OSError if there is no such process."""
        super().__init__(path)
        if keep:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Return the stat line, or an empty line if the process has exited."""
        try:
            return read_short(self._fd) if self._fd >= 0 else read_once(self.path)
        except OSError:
            return b""
