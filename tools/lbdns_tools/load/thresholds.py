"""When a measurement counts as failed: ``p99>200ms``, ``error_percent>1``, ``requests_per_s<1k``. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.toml_table import nearest
from lbdns_tools.load.figures import COUNTS, NUMBERS, Figures
from lbdns_tools.load.tally import ERRORS

HOW: Final = "write a figure, one of > >= < <=, and a limit, such as p99>200ms, error_percent>1 or requests_per_s<1k"
COMPARED: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
TIME_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
#: p99 is p99_s and so on, as nobody says p99_s
SHORT: Final = {name.removesuffix("_s"): name for name in NUMBERS if name.endswith("_s") and not name.endswith("per_s")}
NAMES: Final = (*NUMBERS, *SHORT, *COUNTS, *ERRORS)
_PARTS: Final = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*([-+.\w]*?)\s*(us|ms|s|%|k)?\s*")


@dataclass(frozen=True, slots=True)
class Threshold:
    """What fails a measurement: the figure ``name`` being ``comparison`` ``limit`` (s, %, 1/s, Mbit/s or a count)."""

    text: str  # as it was written
    name: str
    comparison: str
    limit: float

    def broken(self, figures: Figures) -> str:
        """Why these figures fail, "" if they don't. Without a result they do: nothing was shown to hold."""
        value = figures.number(self.name)
        if value is None or not figures.requests:
            return f"{self.text}: no result"
        if COMPARED[self.comparison](value, self.limit):
            return f"{self.text}: it is {_shown(self.name, value)}"
        return ""


def parse_threshold(text: str) -> Threshold:
    """Raises ValueError that says what is wrong and what to write instead."""
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is no threshold; {HOW}")
    name, comparison, number, unit = parts[1].lower(), parts[2], parts[3], parts[4] or ""
    if name not in NAMES:
        raise ValueError(f"{text!r}: there is no figure {name!r}{nearest(name, NAMES)}")
    try:
        limit = float(number)
    except ValueError:
        raise ValueError(f"{text!r}: {number!r} is no number; {HOW}") from None
    if not 0 <= limit < float("inf"):
        raise ValueError(f"{text!r}: a limit is 0 or more, and finite")
    full = SHORT.get(name, name)
    return Threshold(text.strip(), full, comparison, limit * _factor(text, name, full, unit))


def _factor(text: str, name: str, full: str, unit: str) -> float:
    if full in SHORT.values():
        if unit in TIME_UNITS:
            return TIME_UNITS[unit]
        if not unit and name == full:
            return 1.0  # the name says seconds
        raise ValueError(f"{text!r}: {name} is a time: write its unit, such as 200ms, 0.2s or 500us")
    if full.endswith("_percent"):
        if unit in ("", "%"):
            return 1.0
        raise ValueError(f"{text!r}: {name} is in %, so {unit} doesn't fit")
    if unit == "k":
        return 1000.0
    if unit:
        raise ValueError(f"{text!r}: {name} is no {'percentage' if unit == '%' else 'time'}, so {unit} doesn't fit")
    return 1.0


def judge(thresholds: Sequence[Threshold], figures: Figures) -> list[str]:
    """Why these figures fail, one line each; empty if they hold."""
    return [why for threshold in thresholds if (why := threshold.broken(figures))]


def _shown(name: str, value: float) -> str:
    if name in SHORT.values():
        return f"{1000 * value:.4g} ms"
    return f"{value:.4g} %" if name.endswith("_percent") else f"{value:.6g}"
