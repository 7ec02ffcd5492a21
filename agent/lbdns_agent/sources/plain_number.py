"""Finds the value of a metric in a text that consists of a number. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from reprlib import repr as brief_repr
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z", re.ASCII)


def parse_number(text: str) -> float:
    """Return the decimal number in ``text``. Raises ValueError if the text is not a finite number."""
    value = float(text) if _NUMBER.match(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"{brief_repr(text)} is not a finite number")
    return value


@dataclass(frozen=True)
class PlainNumber:
    """Selects the only number in a text."""

    def find(self, text: bytes) -> float:
        """Return the number. Raises ValueError if the text contains anything but the number, spaces and line ends."""
        return parse_number(text.decode("utf-8", "replace").strip())
