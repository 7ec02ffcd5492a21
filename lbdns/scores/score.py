"""Scores: each score reduces a report's metrics to one integer, their weighted sum. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lbdns_shared.metric_catalogue import Better


@dataclass(frozen=True, slots=True)
class Term:
    """The term that one metric contributes to a score.

    If low values are better, the term is ``weight * (limit - value) / limit``, or 0 if the value exceeds the limit. If
    high values are better, the term is ``weight * value / limit``; it is at most ``weight`` if ``cap`` is true, and
    unlimited otherwise.
    """

    weight: float
    limit: float
    better: Better
    cap: bool = False


MAX_SCORE: Final = 10**15  # floats, JSON and JavaScript all represent it exactly
_ROUNDING: Final = 1e-9  # so that 0.1 + 0.2 + 0.7 counts as 1 when the sum is truncated


class Score:
    """A weighted sum of metrics, with one term in ``terms`` per metric. Two scores are equal if their terms are equal.

    If a metric is missing, its term is left out, and the remaining terms are scaled up to the total weight. A missing
    sensor therefore neither helps nor harms the member.
    """

    def __init__(self, terms: Mapping[str, Term]) -> None:
        self.terms: Mapping[str, Term] = MappingProxyType(dict(terms))
        #: the terms as straight lines: metric, weight, slope, zero crossing, end point, and value beyond the end
        self.lines = tuple(_line(metric, term) for metric, term in terms.items() if term.weight > 0)
        self.total = sum(line[1] for line in self.lines)

    def of(self, metrics: Mapping[str, float]) -> int:
        """Return the score as an integer (truncated).

        The score is 0 if ``metrics`` contains none of the score's metrics.
        """
        score = present = 0.0
        for metric, weight, slope, zero, end, beyond in self.lines:
            value = metrics.get(metric)
            if value is not None:
                present += weight
                # A value below 0, which no sensor should report, counts as 0
                score += beyond if value >= end else slope * ((value if value > 0.0 else 0.0) - zero)
        if present == 0.0:
            return 0
        return int(min(score * self._scale(present) + _ROUNDING, MAX_SCORE))

    def parts(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Return the points that each metric in ``metrics`` adds to the score.

        ``of`` returns the sum of these points, truncated to an integer.
        """
        found: dict[str, float] = {}
        present = 0.0
        for metric, weight, slope, zero, end, beyond in self.lines:
            if metric in metrics:
                value = metrics[metric]
                present += weight
                found[metric] = beyond if value >= end else slope * (max(value, 0.0) - zero)
        scale = self._scale(present) if found else 1.0
        return {metric: min(part * scale, float(MAX_SCORE)) for metric, part in found.items()}

    def _scale(self, present: float) -> float:
        return 1.0 if present == self.total else min(self.total / present, float(MAX_SCORE))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Score) and self.terms == other.terms

    __hash__ = None  # type: ignore[assignment]


def _line(metric: str, term: Term) -> tuple[str, float, float, float, float, float]:
    """Return a term as an item of ``Score.lines``."""
    slope = term.weight / term.limit
    if term.better == "low":
        return metric, term.weight, -slope, term.limit, term.limit, 0.0
    return metric, term.weight, slope, 0.0, term.limit if term.cap else math.inf, term.weight
