"""Loaded by Python programs that run with libfaketime: makes time.sleep() work there.

Python sleeps with clock_nanosleep() until an absolute monotonic time, which libfaketime 0.9.10 takes for a wall-clock
time: the call then returns EINVAL, or much too late.
"""

from __future__ import annotations

import select
import time


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = sleep  # type: ignore[assignment]
