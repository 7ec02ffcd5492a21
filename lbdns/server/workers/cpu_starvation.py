"""Distinguishes a hung process from a process that gets hardly any CPU time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from lbdns.server.transport.native_udp import THREAD_NAME

ENOUGH: Final = 0.25  # share of one processor: a process that gets this much but does not reply is hung
_THREAD: Final = THREAD_NAME.encode()
_TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")  # s, the unit of times in /proc


class CpuStarvation:
    """Observes the CPU time of one process from the moment at which the object is created."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._since = time.monotonic()
        self._used, _ = _read(pid)

    def is_starved(self) -> bool:
        """Return whether the process is runnable, but gets hardly any CPU time.

        Such a process has used less than the fraction ENOUGH of one CPU since observation began. A process that has
        been stopped, or is waiting for anything other than a processor, is not starved.
        """
        used, runnable = _read(self._pid)
        return runnable and used - self._used < ENOUGH * (time.monotonic() - self._since)


def _read(pid: int) -> tuple[float, bool]:
    """Return the CPU seconds of a process, and whether one of its threads is runnable (proc_pid_stat(5)).

    The threads that answer queries without the interpreter do not count: they run even if the interpreter hangs.
    """
    used, runnable = 0.0, False
    try:
        for path in Path(f"/proc/{pid}/task").iterdir():
            name, _, rest = (path / "stat").read_bytes().partition(b"(")[2].rpartition(b")")
            if name == _THREAD:
                continue
            fields = rest.split()
            runnable |= fields[0] == b"R"
            used += (int(fields[11]) + int(fields[12])) * _TICK
    except (OSError, IndexError, ValueError):
        return used, False  # it has ended, or no descriptor is left
    return used, runnable
