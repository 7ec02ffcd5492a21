"""The calibration: runs each metric alone, weighs the metrics, and compares the new score with the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.scores.score import Term
from lbdns_shared.errors import LbdnsError
from lbdns_tools.calibrate.calibration_trial import BASE, CalibrationTrial, TrialFarm, TrialOutcome, alone
from lbdns_tools.calibrate.metric_weights import Measure, Method, WeighedMetric, gained, percent, terms_of, weigh


@dataclass(frozen=True, slots=True)
class ComparedPolicy:
    """A policy on the same farm, compared with round robin."""

    name: str
    throughput_per_s: float
    mean_ms: float
    gain: float
    error: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of a calibration. ``terms`` are those of the new score."""

    method: Method
    measure: Measure
    rounds: int
    weighed: tuple[WeighedMetric, ...]
    terms: Mapping[str, Term]
    compared: tuple[ComparedPolicy, ...]


#: Trials of the comparison: the new score and "thesis", each with the two policies that use a score
CONTESTANTS: Final = 4


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
            f"no metric alone does better than round robin: the best one, {best.metric}, gains "
            f"{percent(best.gain)} (+-{100 * best.error:.1f}) of {measure}. Either this farm needs no score, because "
            "round robin does as well; or try another load, more --rounds, another --by, or --method 1999"
        )
    contestants = [
        CalibrationTrial("best_score by the new score", "best_score", terms),
        CalibrationTrial("best by the new score", "best", terms),
        CalibrationTrial('best_score by "thesis"', "best_score"),
        CalibrationTrial('best by "thesis"', "best"),
    ]
    results = farm.run(contestants, rounds, on_done)
    compared = [_compared(BASE.name, base, base, measure)]
    compared += [
        _compared(trial.name, result, base, measure) for trial, result in zip(contestants, results, strict=True)
    ]
    return Calibration(method, measure, rounds, tuple(weighed), terms, tuple(compared))


def _compared(
    name: str, outcomes: Sequence[TrialOutcome], base: Sequence[TrialOutcome], measure: Measure
) -> ComparedPolicy:
    gain, error = gained(outcomes, base, measure)
    count = len(outcomes)
    return ComparedPolicy(
        name, sum(o.throughput_per_s for o in outcomes) / count, sum(o.mean_ms for o in outcomes) / count, gain, error
    )
