"""The CPU time of a process and of all that it starts from now on, counted by the kernel.

For the one kind of process whose children leave no trace: it ignores SIGCHLD, so the kernel takes their times with
them (wait(2), NOTES). Apache's mod_cgid is such a process, and its children are all CGI programs.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Final

from lbdns_agent.kernel_file import read_once

# perf_event_open(2): its number by machine, struct perf_event_attr in its sixth size, and what is asked for
_SYSCALL: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTRIBUTES = struct.Struct("=IIQQQQQ64x")  # type, size, config, period, sample type, read format, flags
_SOFTWARE, _TASK_CLOCK, _INHERIT = 1, 1, 1 << 1
_CLOSE_ON_EXEC: Final = 8
_SIGCHLD_BIT: Final = 1 << 16  # signal 17, in the mask of /proc/PID/status


def ignores_children(proc: str, pid: int) -> bool:
    """Whether a process ignores SIGCHLD (proc_pid_status(5), SigIgn); False when it is gone."""
    try:
        status = read_once(f"{proc}/{pid}/status")
    except OSError:
        return False
    mask = status.partition(b"\nSigIgn:")[2].split(None, 1)
    return bool(mask) and bool(int(mask[0], 16) & _SIGCHLD_BIT)


class InheritedClock:
    """Counts from its making until ``close``, also for children that have ended."""

    def __init__(self, pid: int) -> None:
        """Raises OSError when the kernel, or its administrator (perf_event_paranoid), doesn't allow it."""
        import ctypes  # a megabyte that few agents need

        number = _SYSCALL.get(os.uname().machine)
        if number is None:
            raise OSError(f"perf_event_open has no known number on {os.uname().machine}")
        attributes = ctypes.create_string_buffer(
            _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES.size, _TASK_CLOCK, 0, 0, 0, _INHERIT), _ATTRIBUTES.size
        )
        kernel = ctypes.CDLL(None, use_errno=True)
        self._fd: int = kernel.syscall(number, attributes, pid, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def seconds(self) -> float:
        """CPU seconds so far. Raises OSError."""
        return int.from_bytes(os.read(self._fd, 8), sys.byteorder) / 1e9

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
