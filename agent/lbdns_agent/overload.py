"""Overload conditions, ``METRIC[/cpu] > NUMBER``: read, and held against metrics. Pure.

A host that is overloaded says so at once (an alarm), and is given no more clients until it says otherwise.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

LONGEST_TEXT: Final = 200  # characters of a report that the alarm may take
PER_CPU: Final = "/cpu"
#: More connections waiting than any healthy server lets wait, no memory left, or no end of waiting for a processor.
DEFAULT_CONDITIONS: Final = ("listen_queue > 256", "mem_available < 2", "run_queue/cpu > 64")

_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_FORM = re.compile(r"\s*([A-Za-z0-9_]+)(\s*/\s*cpu)?\s*(>=|<=|>|<)\s*(\S+)\s*\Z")


@dataclass(frozen=True, slots=True)
class Condition:
    """The metric, divided by cpu_count (or by 1, if that is more) if ``per_cpu``, compared with a limit."""

    metric: str
    comparison: str
    limit: float
    per_cpu: bool = False

    def __str__(self) -> str:
        return f"{self._subject} {self.comparison} {self.limit:g}"

    @property
    def _subject(self) -> str:
        return self.metric + (PER_CPU if self.per_cpu else "")

    def alarm(self, metrics: Mapping[str, float]) -> str:
        """What is wrong, such as ``run_queue 130 > 100``; empty when nothing is, or the metric is absent."""
        value = metrics.get(self.metric)
        if value is not None and self.per_cpu:
            cores = metrics.get("cpu_count", 0.0)
            # Below one core (a quota of 0.07, say) a queue is as long as it is: 5 tasks are no 70
            value = value / max(1.0, cores) if cores > 0 else None
        if value is None or not _COMPARISONS[self.comparison](value, self.limit):
            return ""
        return f"{self._subject} {value:.4g} {self.comparison} {self.limit:g}"


def parse_condition(text: str, known: Collection[str]) -> Condition:
    """Read ``METRIC[/cpu] OPERATOR NUMBER``. Raises ValueError, with the nearest of the ``known`` metrics."""
    match = _FORM.match(text)
    if not match:
        raise ValueError(f"{text!r} is no condition such as 'run_queue>100' or 'run_queue/cpu>64' (>, >=, <, <=)")
    metric, per_cpu, comparison, number = match.groups()
    if metric not in known:
        import difflib  # only for who needs it

        close = difflib.get_close_matches(metric, known, n=1, cutoff=0.6)
        hint = f". Perhaps you meant {close[0]!r}?" if close else f"; known: {', '.join(known)}"
        raise ValueError(f"{metric!r} is no metric{hint}")
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise ValueError(f"{text!r}: {number!r} is no number")
    return Condition(metric, comparison, limit, per_cpu is not None)


def overload(conditions: Iterable[Condition], metrics: Mapping[str, float]) -> str:
    """All that is wrong, in the order of the conditions; empty when nothing is."""
    text = "; ".join(filter(None, (condition.alarm(metrics) for condition in conditions)))
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."
