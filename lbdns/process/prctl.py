"""Call prctl(2), which Python does not provide."""

from __future__ import annotations

import ctypes
import os
from typing import Final

LIBC: Final = ctypes.CDLL(None, use_errno=True)
SET_NAME: Final = 15  # linux/prctl.h


def prctl(option: int, argument: int | bytes) -> None:
    """Set one attribute of this process. Raises OSError."""
    if LIBC.prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def name_process(name: str) -> None:
    """Set the name that ps and top show (15 bytes)."""
    prctl(SET_NAME, name.encode())
