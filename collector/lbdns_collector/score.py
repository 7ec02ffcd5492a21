"""A score: one whole number for a report, the weighted sum of its metrics. Pure: no clock, no file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lbdns.config import Config, Term

#: Weights and limits of the 1999 diploma thesis that lbdns goes back to; their sum is 99.97.
THESIS_TERMS: Final[Mapping[str, Term]] = MappingProxyType(
    {
        "run_queue": Term(19.6, 30.0, "low"),
        "cpu_idle": Term(19.58, 100.0, "high"),
        "gateway_ping": Term(17.24, 400.0, "low"),
        "requests_per_s": Term(19.64, 10.0, "high"),
        "scan_rate": Term(4.23, 200.0, "low"),
        "idle_workers": Term(19.68, 20.0, "high"),
    }
)

MAX_SCORE: Final = 10**15  # a number that floats, JSON and JavaScript all hold exactly
_ROUNDING: Final = 1e-9  # 0.1 + 0.2 + 0.7 has to count as 1 when the sum is truncated


class Score:
    """Weighs the metrics of a report. Two scores are equal when their terms are.

    A term is ``weight * (limit - value) / limit`` when low is better, 0 above the limit, and
    ``weight * value / limit`` when high is better, without an upper end unless capped. A metric that is
    absent leaves out its term and its weight; the sum of the others is scaled by the total of all weights
    over the sum of their weights, so that a missing sensor neither helps nor harms.
    """

    def __init__(self, terms: Mapping[str, Term]) -> None:
        self.terms: Mapping[str, Term] = MappingProxyType(dict(terms))
        self._lines = tuple(_line(metric, term) for metric, term in terms.items() if term.weight > 0)
        self._total = sum(line[1] for line in self._lines)

    def of(self, metrics: Mapping[str, float]) -> int:
        """The score, truncated to an integer; 0 when no metric of the score is there."""
        score = present = 0.0
        for metric, weight, slope, zero, end, beyond in self._lines:
            value = metrics.get(metric)
            if value is not None:
                present += weight
                # A value below 0, which no sensor means, counts as 0
                score += beyond if value >= end else slope * ((value if value > 0.0 else 0.0) - zero)
        if present == 0.0:
            return 0
        return int(min(score * self._scale(present) + _ROUNDING, MAX_SCORE))

    def parts(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """What each metric that is there adds to the score; ``of`` is their sum, truncated."""
        found: dict[str, float] = {}
        present = 0.0
        for metric, weight, slope, zero, end, beyond in self._lines:
            if metric in metrics:
                value = metrics[metric]
                present += weight
                found[metric] = beyond if value >= end else slope * (max(value, 0.0) - zero)
        scale = self._scale(present) if found else 1.0
        return {metric: min(part * scale, float(MAX_SCORE)) for metric, part in found.items()}

    def _scale(self, present: float) -> float:
        return 1.0 if present == self._total else min(self._total / present, float(MAX_SCORE))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Score) and self.terms == other.terms

    __hash__ = None  # type: ignore[assignment]


def _line(metric: str, term: Term) -> tuple[str, float, float, float, float, float]:
    """A term as a straight line: metric, weight, slope, where it is zero, where it ends, its value from there on."""
    slope = term.weight / term.limit
    if term.better == "low":
        return metric, term.weight, -slope, term.limit, term.limit, 0.0
    return metric, term.weight, slope, 0.0, term.limit if term.cap else math.inf, term.weight


THESIS: Final = Score(THESIS_TERMS)

#: The scores that are built in, by the name a configuration calls them.
SCORES: Final[Mapping[str, Score]] = MappingProxyType({"thesis": THESIS})


def build_score(config: Config) -> Score:
    """The score that ``[collector] score`` names: built in, or a ``[score.NAME]`` table."""
    return _named(config.collector.score, config)


def build_shadow_score(config: Config) -> Score | None:
    """The score that ``[collector] shadow_score`` names, if it does."""
    name = config.collector.shadow_score
    return _named(name, config) if name else None


def _named(name: str, config: Config) -> Score:
    return SCORES[name] if name in SCORES else Score(config.scores[name])
