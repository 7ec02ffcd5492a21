"""prctl(2) and its neighbours, which Python does not have."""

from __future__ import annotations

import ctypes
import os
from typing import Final

LIBC: Final = ctypes.CDLL(None, use_errno=True)
SET_NAME: Final = 15  # linux/prctl.h


def prctl(option: int, argument: int | bytes) -> None:
    """Raises OSError."""
    if LIBC.prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def name_process(name: str) -> None:
    """Have ps and top show ``name`` (15 characters)."""
    prctl(SET_NAME, name.encode())
