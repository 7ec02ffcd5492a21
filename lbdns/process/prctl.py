"""Sets the process name (prctl(2)) and drops capabilities (capabilities(7)), which the standard library cannot do."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
# linux/prctl.h
_SET_NAME: Final = 15
_CAPBSET_READ: Final = 23
_CAPBSET_DROP: Final = 24
_SET_CHILD_SUBREAPER: Final = 36
_SET_NO_NEW_PRIVS: Final = 38
_CAP_AMBIENT: Final = 47
_CAP_AMBIENT_CLEAR_ALL: Final = 4
# linux/capability.h
_SETPCAP: Final = 8
_VERSION_3: Final = 0x20080522


def prctl(option: int, argument: int | bytes) -> None:
    """Set one prctl(2) attribute of this process. Raises OSError."""
    if _LIBC.prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def name_process(name: str) -> None:
    """Set the process name (at most 15 bytes) that ps and top show."""
    prctl(_SET_NAME, name.encode())


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parents exit, so that it can wait for them.

    Raises OSError.
    """
    prctl(_SET_CHILD_SUBREAPER, 1)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilitySet(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def forbid_new_capabilities() -> None:
    """Prevent programs that are executed later from gaining privileges through set-user-ID bits or file capabilities.

    This process keeps its own privileges. The setting applies only to the calling thread and to threads that this
    thread starts later, so the process must have no other threads yet. Raises OSError.
    """
    prctl(_SET_NO_NEW_PRIVS, 1)
    prctl(_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
    if not _has(_SETPCAP):
        return  # a process that may not narrow the bounding set cannot gain from it either
    number = 0
    while _LIBC.prctl(_CAPBSET_READ, number, 0, 0, 0) >= 0:
        prctl(_CAPBSET_DROP, number)
        number += 1


def give_up_capabilities() -> None:
    """Give up every capability of the calling thread. Raises OSError."""
    if _LIBC.capset(ctypes.byref(_Header(_VERSION_3, 0)), (_CapabilitySet * 2)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _has(capability: int) -> bool:
    status = Path("/proc/self/status").read_text("ascii")
    held = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(held, 16) >> capability & 1)
