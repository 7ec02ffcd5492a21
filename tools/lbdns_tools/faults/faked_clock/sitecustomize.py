"""Makes time.sleep() work in Python programs that run with libfaketime.

Python calls clock_nanosleep() with an absolute monotonic time. Because libfaketime 0.9.10 treats the argument as
wall-clock time, the call either fails with EINVAL or returns much too late.
"""

from __future__ import annotations

import select
import time


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = sleep  # type: ignore[assignment]
