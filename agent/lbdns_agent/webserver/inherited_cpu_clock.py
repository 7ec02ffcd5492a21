"""The CPU time of a process and of all processes it starts from now on, counted by the kernel's perf events.

A process that ignores SIGCHLD needs this clock: the kernel discards the times of its children when they end
(wait(2), NOTES). Apache's mod_cgid is such a process, and its children are the CGI programs.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Final

from lbdns_agent.kernel_files import read_once

# perf_event_open(2): its system call number by machine, and struct perf_event_attr in its sixth size
_SYSCALL: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTRIBUTES = struct.Struct("=IIQQQQQ64x")  # type, size, config, period, sample type, read format, flags
_SOFTWARE, _TASK_CLOCK, _INHERIT = 1, 1, 1 << 1
_CLOSE_ON_EXEC: Final = 8
_SIGCHLD_BIT: Final = 1 << 16  # signal 17, in the mask of /proc/PID/status


def ignores_children(proc: str, pid: int) -> bool:
    """Return whether a process ignores SIGCHLD (proc_pid_status(5), SigIgn); False if it has ended."""
    try:
        status = read_once(f"{proc}/{pid}/status")
    except OSError:
        return False
    mask = status.partition(b"\nSigIgn:")[2].split(None, 1)
    return bool(mask) and bool(int(mask[0], 16) & _SIGCHLD_BIT)


class InheritedCpuClock:
    """Counts CPU time from its creation until ``close``, including that of children that have ended."""

    def __init__(self, pid: int) -> None:
        """Raises OSError if the kernel lacks perf events or doesn't permit them (perf_event_paranoid)."""
        import ctypes  # takes a megabyte, and few agents need it

        number = _SYSCALL.get(os.uname().machine)
        if number is None:
            raise OSError(f"the system call number of perf_event_open is unknown on {os.uname().machine}")
        attributes = ctypes.create_string_buffer(
            _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES.size, _TASK_CLOCK, 0, 0, 0, _INHERIT), _ATTRIBUTES.size
        )
        kernel = ctypes.CDLL(None, use_errno=True)
        self._fd: int = kernel.syscall(number, attributes, pid, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def seconds(self) -> float:
        """Return the CPU seconds so far. Raises OSError."""
        return int.from_bytes(os.read(self._fd, 8), sys.byteorder) / 1e9

    def close(self) -> None:
        """Stop counting."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
