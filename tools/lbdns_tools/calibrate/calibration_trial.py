"""Defines a calibration trial (a policy and the terms of its score) and its outcome on a farm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lbdns.scores.derived_metrics import score_metrics
from lbdns.scores.score import Term
from lbdns_shared.metric_catalogue import Better

#: For a metric that decides alone: a limit above any measured value, and a weight that separates the smallest
#: differences before scores become whole numbers. Both are within the ranges of [score.NAME].
_FAR: Final = 1e6
_FINE: Final = 1e9


@dataclass(frozen=True, slots=True)
class CalibrationTrial:
    """A policy and the terms of the score that it uses."""

    name: str
    policy: str
    terms: Mapping[str, Term] | None = None  # None: the policy needs no score, or uses the built-in "thesis"


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """The result of one trial in one round. ``ranges`` maps each metric to the 99th percentile of its values."""

    throughput_per_s: float  # responses
    mean_ms: float  # response time
    ranges: Mapping[str, float] = field(default_factory=dict)


class TrialFarm(Protocol):
    """A simulated or live farm that runs calibration trials."""

    def metrics(self) -> Sequence[str]:
        """Return the metrics that all members report and that can be used in a score."""

    def run(
        self, trials: Sequence[CalibrationTrial], rounds: int, on_done: Callable[[], None]
    ) -> list[list[TrialOutcome]]:
        """Return each trial's outcomes, one per round. Call ``on_done`` after each run. Raises LbdnsError."""


BASE: Final = CalibrationTrial("round_robin", "round_robin")


def alone(metric: str) -> CalibrationTrial:
    """Return a trial in which the score consists of ``metric`` alone."""
    return CalibrationTrial(metric, "best_score", {metric: Term(_FINE, _FAR, better(metric))})


def better(metric: str) -> Better:
    """Return "low" or "high", depending on which values of a metric are better.

    Raises KeyError if the catalogue does not specify which values are better.
    """
    found = score_metrics()[metric].better
    if found is None:
        raise KeyError(metric)
    return found


def weighable(metrics: Mapping[str, float]) -> list[str]:
    """Return the names of the ``metrics`` that can be used in a score."""
    return [name for name, known in score_metrics().items() if known.better and name in metrics]
