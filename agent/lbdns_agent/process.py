"""One process in /proc: what its stat file says. parse is pure; StatFile keeps the file open.

An open stat file stands for one process for ever: once the process is gone, reading fails, even if its number
was given to another.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from lbdns_agent.kernel_file import read_once, read_short

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """Some fields of /proc/PID/stat (proc_pid_stat(5)); times in clock ticks."""

    state: str
    parent: int
    used: int  # user and system time of its own threads
    waited_for: int  # user and system time of the children that it has waited for, and theirs
    threads: int


def parse(line: bytes) -> Stat:
    """Read a stat line; the name in parentheses may hold anything. Raises ValueError."""
    fields = line[line.rfind(b")") + 2 :].split(None, 18)
    if len(fields) < 18:
        raise ValueError("no stat file of a process")
    return Stat(
        fields[0].decode("ascii", "replace"),
        int(fields[1]),
        int(fields[11]) + int(fields[12]),
        int(fields[13]) + int(fields[14]),
        int(fields[17]),
    )


def read_stat(proc: str, pid: int) -> Stat | None:
    """The stat of a process that is looked at once, or None if there is none such."""
    try:
        return parse(read_once(f"{proc}/{pid}/stat"))
    except OSError:
        return None


class StatFile:
    """The stat file of one process or thread, kept open (``keep``) or opened each time."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str, keep: bool = True) -> None:
        """Raises OSError when there is no such process."""
        self._path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if keep else -1

    def read(self) -> bytes:
        """The line; empty when the process is gone."""
        try:
            return read_short(self._fd) if self._fd >= 0 else read_once(self._path)
        except OSError:
            return b""

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
