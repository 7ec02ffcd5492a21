"""The calibration: runs each metric alone, weighs the metrics, and compares the new score with the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.scores.score import Term
from lbdns_shared.errors import LbdnsError
from lbdns_tools.calibrate.calibration_trial import BASE, CalibrationTrial, TrialFarm, alone
from lbdns_tools.calibrate.metric_weights import (
    Measure,
    Method,
    TrialFigures,
    WeighedMetric,
    mean_figures,
    percent,
    terms_of,
    weigh,
)

#: Trials of the comparison: the new score and "thesis", each with the two policies that use a score
CONTESTANTS: Final = 4


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of a calibration. ``terms`` are those of the new score; the first of ``compared`` is round robin."""

    method: Method
    measure: Measure
    rounds: int
    weighed: tuple[WeighedMetric, ...]
    terms: Mapping[str, Term]
    compared: tuple[TrialFigures, ...]


def trials_of(metrics: Sequence[str]) -> int:
    """Return the number of trials in each round of a calibration of these metrics."""
    return 1 + len(metrics) + CONTESTANTS


def calibrate(
    farm: TrialFarm, metrics: Sequence[str], method: Method, measure: Measure, rounds: int, on_done: Callable[[], None]
) -> Calibration:
    """Find the weights of ``metrics`` and compare the new score.

    Raises LbdnsError if no metric does better than round robin, or if the farm can't run the trials.
    """
    base, *outcomes = farm.run([BASE, *(alone(metric) for metric in metrics)], rounds, on_done)
    weighed = weigh(dict(zip(metrics, outcomes, strict=True)), base, method, measure)
    terms = terms_of(weighed)
    if not terms:
        best = weighed[0]
        raise LbdnsError(
            f"no metric alone does better than round robin: the best one, {best.name}, gains "
            f"{percent(best.gain)} (+-{100 * best.error:.1f}) of {measure}. Either this farm needs no score, because "
            "round robin does as well; or try another load, more --rounds, another --by, or --method 1999"
        )
    contestants = [
        CalibrationTrial("best_score by the new score", "best_score", terms),
        CalibrationTrial("best by the new score", "best", terms),
        CalibrationTrial('best_score by "thesis"', "best_score"),
        CalibrationTrial('best by "thesis"', "best"),
    ]
    results = [base, *farm.run(contestants, rounds, on_done)]
    compared = tuple(
        TrialFigures(trial.name, *mean_figures(result, base, measure))
        for trial, result in zip([BASE, *contestants], results, strict=True)
    )
    return Calibration(method, measure, rounds, tuple(weighed), terms, compared)
