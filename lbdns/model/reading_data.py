"""Convert readings to plain data and back, to send them to another process."""

from __future__ import annotations

import math
from typing import Any

from lbdns.model.snapshot import Reading


def write_reading(reading: Reading, now: float) -> list[Any]:
    """Return a reading as plain data, with its age at ``now`` (monotonic seconds) instead of its time.

    Monotonic times mean nothing on another machine.
    """
    age = max(0.0, now - reading.received)
    return [age, reading.interval, reading.score, dict(reading.metrics), reading.alarm, reading.gone]


def read_reading(value: Any, now: float) -> Reading:
    """Return the reading that ``write_reading`` wrote; ``now`` is on the reader's monotonic clock.

    Raises ValueError or TypeError if ``value`` is not a valid reading.
    """
    age, interval, score, metrics, alarm, gone = value
    numbers = {str(name): float(number) for name, number in metrics.items()}
    if not (0 < float(interval) < math.inf and math.isfinite(age) and all(map(math.isfinite, numbers.values()))):
        raise ValueError(f"not a valid reading: {value!r}")
    return Reading(now - max(0.0, age), float(interval), int(score), numbers, str(alarm), bool(gone))
