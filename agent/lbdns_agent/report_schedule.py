"""When reports are due: at fixed times of the monotonic clock, however long a report takes. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

ALARM_CHECK_INTERVAL: Final = 0.25  # seconds between two checks of the alarm conditions


@dataclass(frozen=True)
class ReportSchedule:
    """Report k is due at ``first + k * interval`` (monotonic seconds). A missed report is skipped, not sent late."""

    first: float
    interval: float

    def next_report(self, now: float) -> float:
        """Return the first due time after ``now``."""
        if now < self.first:
            return self.first
        passed = math.floor((now - self.first) / self.interval)
        due = self.first + (passed + 1) * self.interval
        return due if due > now else self.first + (passed + 2) * self.interval

    def next_alarm_check(self, now: float, due: float) -> float:
        """Return the time of the next alarm check, or ``due`` if the report that is due then comes first.

        A check less than half an interval before a report is not worth its cost.
        """
        check = now + ALARM_CHECK_INTERVAL
        return check if check < due - ALARM_CHECK_INTERVAL / 2 else due
