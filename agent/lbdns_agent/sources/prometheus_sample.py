"""Finds the value of a metric in Prometheus's text format. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/ describes the format. OpenMetrics differs only in lines
that this module does not read, and in what may follow a value.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_LABEL: Final = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*(,|\Z)')
_SELECTOR: Final = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(.*)\})?\Z", re.DOTALL)
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True)
class PrometheusSample:
    """Selects all samples that have this name and at least these labels. The result is the sum of their values."""

    name: str
    labels: frozenset[tuple[str, str]] = frozenset()

    @cached_property
    def _line(self) -> re.Pattern[bytes]:
        name = re.escape(self.name.encode())
        return re.compile(
            rb'^[ \t]*%s[ \t]*(?:\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\})?[ \t]+(\S+)' % name, re.MULTILINE
        )

    def find(self, text: bytes) -> float:
        """Return the sum of the values of all samples that match.

        Raises ValueError if no sample matches, or a sample's value is not a finite number.
        """
        found = []
        for line in self._line.finditer(text):
            labels = (line[1] or b"").decode("utf-8", "replace")
            if self.labels and not self.labels <= parse_labels(labels):
                continue
            try:
                value = float(line[2])
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise ValueError(f"the value {line[2].decode('utf-8', 'replace')[:20]!r} is not a finite number")
            found.append(value)
        if not found:
            raise ValueError(f"there is no sample {self}")
        total = sum(found)
        if not math.isfinite(total):
            raise ValueError("the sum of the values is too large")
        return total

    def __str__(self) -> str:
        labels = ",".join(f'{name}="{value}"' for name, value in sorted(self.labels))
        return f"{self.name}{{{labels}}}" if labels else self.name


def parse_prometheus_sample(text: str) -> PrometheusSample:
    """Return the selector for ``NAME`` or ``NAME{LABEL="VALUE",...}``. Raises ValueError."""
    match = _SELECTOR.match(text.strip())
    if not match:
        raise ValueError(f'{text!r} must be NAME or NAME{{LABEL="VALUE",...}}, as on the page')
    return PrometheusSample(match[1], parse_labels(match[2] or ""))


def parse_labels(text: str) -> frozenset[tuple[str, str]]:
    """Return the labels between the braces of a sample. Raises ValueError if they are malformed."""
    found = []
    position = 0
    while text[position:].strip():
        match = _LABEL.match(text, position)
        if not match:
            raise ValueError(f'{text!r} must be labels of the form NAME="VALUE", separated by commas')
        value = re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), match[2])
        found.append((match[1], value))
        position = match.end()
    return frozenset(found)
