"""Thresholds for --fail-if, such as ``p99>200ms``, ``error_percent>1`` or ``requests_per_s<1k``. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lbdns.text.suggestions import nearest
from lbdns_tools.load.request_tally import ERRORS
from lbdns_tools.load.run_statistics import COUNTS, NUMBERS, RunStatistics

HOW: Final = "write a statistic, an operator (>, >=, < or <=) and a limit, for example p99>200ms or error_percent>1"
COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
TIME_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
#: Short names: p99 for p99_s and so on
SHORT: Final = {name.removesuffix("_s"): name for name in NUMBERS if name.endswith("_s") and not name.endswith("per_s")}
NAMES: Final = (*NUMBERS, *SHORT, *COUNTS, *ERRORS)
_PARTS: Final = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*([-+.\w]*?)\s*(us|ms|s|%|k)?\s*")


@dataclass(frozen=True, slots=True)
class FailureThreshold:
    """A condition that makes a measurement fail. ``limit`` uses the statistic's unit: s, %, 1/s, Mbit/s or a count."""

    text: str  # as the user wrote it
    name: str
    comparison: str
    limit: float

    def broken(self, figures: RunStatistics) -> str:
        """Return the reason why the run with the statistics ``figures`` fails, or "" if it passes. A missing result
        also counts as a failure.
        """
        value = figures.number(self.name)
        if value is None or not figures.requests:
            return f"{self.text}: no result"
        if COMPARED[self.comparison](value, self.limit):
            return f"{self.text}: is {_shown(self.name, value)}"
        return ""


def parse_threshold(text: str) -> FailureThreshold:
    """Parse a threshold. Raises ValueError with a message that explains the syntax."""
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a valid threshold; {HOW}")
    name, comparison, number, unit = parts[1].lower(), parts[2], parts[3], parts[4] or ""
    if name not in NAMES:
        raise ValueError(f"{text!r}: there is no statistic named {name!r}{nearest(name, NAMES)}")
    try:
        limit = float(number)
    except ValueError:
        raise ValueError(f"{text!r}: {number!r} is not a number; {HOW}") from None
    if not 0 <= limit < float("inf"):
        raise ValueError(f"{text!r}: the limit must be a finite number, 0 or more")
    full = SHORT.get(name, name)
    return FailureThreshold(text.strip(), full, comparison, limit * _factor(text, name, full, unit))


def _factor(text: str, name: str, full: str, unit: str) -> float:
    if full in SHORT.values():
        units, what = TIME_UNITS, "is a time, so the limit requires a unit, for example 200ms, 0.2s or 500us"
        if name == full:  # the name says seconds
            units = {"": 1.0, **TIME_UNITS}
    elif full.endswith("_percent"):
        units, what = {"": 1.0, "%": 1.0}, f"is a percentage, so the unit must be % or omitted, not {unit}"
    else:
        kind = "percentage" if unit == "%" else "time"
        units, what = {"": 1.0, "k": 1000.0}, f"is not a {kind}, so the unit must not be {unit}"
    if unit not in units:
        raise ValueError(f"{text!r}: {name} {what}")
    return units[unit]


def _shown(name: str, value: float) -> str:
    if name in SHORT.values():
        return f"{1000 * value:.4g} ms"
    return f"{value:.4g} %" if name.endswith("_percent") else f"{value:.6g}"
