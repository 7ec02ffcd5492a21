"""Parses alarm conditions such as ``METRIC[/cpu] > NUMBER``, and checks them against a host's metrics. Pure.

An overloaded host sends an alarm immediately, and the server then sends it no clients until the alarm ends.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

ALARM_CHECK_INTERVAL: Final = 0.25  # seconds between two checks of the alarm conditions
MAX_REASON_LENGTH: Final = 200  # characters, so that the report still fits into one datagram
PER_CPU: Final = "/cpu"
#: Limits that no healthy server reaches: a long accept queue, almost no memory left, a very long run queue.
DEFAULT_CONDITIONS: Final = ("listen_queue > 256", "mem_available < 2", "run_queue/cpu > 64")

_COMPARISONS: Final = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_FORM = re.compile(r"\s*([A-Za-z0-9_]+)(\s*/\s*cpu)?\s*(>=|<=|>|<)\s*(\S+)\s*\Z")


@dataclass(frozen=True)
class AlarmCondition:
    """A condition for one metric, such as ``run_queue > 100``. The agent sends alarms as long as the condition is
    met.

    If ``per_cpu`` is true, the metric is first divided by the CPU count, or by 1 if the count is less than 1.
    """

    metric: str
    comparison: str
    limit: float
    per_cpu: bool = False

    def __str__(self) -> str:
        return f"{self._subject} {self.comparison} {self.limit:g}"

    @property
    def _subject(self) -> str:
        return self.metric + (PER_CPU if self.per_cpu else "")

    def reason(self, metrics: Mapping[str, float]) -> str:
        """Return the reason for the alarm, such as ``run_queue 130 > 100``.

        Returns an empty string if the condition isn't met or the metric is missing.
        """
        value = metrics.get(self.metric)
        if value is not None and self.per_cpu:
            cores = metrics.get("cpu_count", 0.0)
            # A quota below one core counts as one core: with 0.07 cores, 5 tasks would become 70 per core
            value = value / max(1.0, cores) if cores > 0 else None
        if value is None or not _COMPARISONS[self.comparison](value, self.limit):
            return ""
        return f"{self._subject} {value:.4g} {self.comparison} {self.limit:g}"


def parse_alarm_condition(text: str, known: Collection[str]) -> AlarmCondition:
    """Parse ``METRIC[/cpu] OPERATOR NUMBER``.

    Raises ValueError if ``text`` is not a valid condition. If the metric is unknown, the message suggests or lists
    metrics from ``known``.
    """
    match = _FORM.match(text)
    if not match:
        raise ValueError(
            f"{text!r} is not a valid condition; write, for example, 'run_queue>100' or 'run_queue/cpu>64' "
            "(the operators are >, >=, < and <=)"
        )
    metric, per_cpu, comparison, number = match.groups()
    if metric not in known:
        import difflib  # not loaded unless needed

        close = difflib.get_close_matches(metric, known, n=1, cutoff=0.6)
        hint = f". Perhaps you meant {close[0]!r}?" if close else f"; the metrics are: {', '.join(known)}"
        raise ValueError(f"unknown metric {metric!r}{hint}")
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise ValueError(f"{text!r}: {number!r} is not a finite number")
    return AlarmCondition(metric, comparison, limit, per_cpu is not None)


def alarm_reason(conditions: Iterable[AlarmCondition], metrics: Mapping[str, float]) -> str:
    """Return the alarm reasons for all conditions that are met, separated by semicolons. If none is met, return ""."""
    text = "; ".join(filter(None, (condition.reason(metrics) for condition in conditions)))
    return text if len(text) <= MAX_REASON_LENGTH else text[: MAX_REASON_LENGTH - 3] + "..."
