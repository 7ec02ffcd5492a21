"""Waits for conditions, because a harness must never assume how long a step takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

STEP: Final = 0.02  # s between two checks


def wait_for(condition: Callable[[], object], seconds: float, step: float = STEP) -> float | None:
    """Wait until ``condition`` is true, and return the monotonic time, or None after ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        if condition():
            return time.monotonic()
        if time.monotonic() >= end:
            return None
        time.sleep(step)
