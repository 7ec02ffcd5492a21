"""Calibrates a score: tries each metric alone, computes weights, and compares the new score with other policies.

- Method "1999" sets a metric's weight to 100 * a / (sum of all a). The value a is the farm's performance if the score
  consists of that metric alone.
- Method "gain" sets a metric's weight to 100 * g / (sum of all g). The value g is the metric's gain over round robin.

A farm's performance is either its throughput or the reciprocal of its response time. If b is the farm's performance
with round robin, a metric's gain is the mean of ln(a / b) over all rounds, minus the standard error of the mean. The
gain is at least 0. A metric that does not outperform round robin does not improve a score. Method "1999" gives even
such a metric nearly as much weight as the best metric. Method "gain" gives it a weight of 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Final, Literal

from lbdns.scores.derived_metrics import score_metrics
from lbdns.scores.score import Term
from lbdns_shared.errors import LbdnsError
from lbdns_tools.calibrate.calibration_trial import BASE, CalibrationTrial, TrialFarm, TrialOutcome, alone, better

Method = Literal["gain", "1999"]
Measure = Literal["throughput", "response"]

TOTAL: Final = 100.0  # the sum of all weights; in 1999 it was 99.97, because of rounding
_UNIT: Final = 0.01  # weights are multiples of a hundredth
_LEAST: Final = 1e-6  # responses/s or ms: smaller values are raised to this one
#: Number of trials in the comparison: the new score and "thesis", each with the two policies that use a score
CONTESTANTS: Final = 4


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """The performance of a farm with one policy, or with one metric alone, averaged over the rounds."""

    name: str
    throughput_per_s: float
    mean_ms: float
    gain: float  # ln of the performance relative to round robin: 0.1 means about 10% better
    error: float  # standard error of the gain; 0 if there was only one round


@dataclass(frozen=True, slots=True)
class WeighedMetric(TrialFigures):
    """A metric's limit and weight in a score, and the measurements from which they were derived."""

    limit: float  # 0 if the metric never changed
    weight: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of a calibration. ``terms`` defines the new score; the first item in ``compared`` is round robin."""

    method: Method
    measure: Measure
    rounds: int
    weighed: tuple[WeighedMetric, ...]
    terms: Mapping[str, Term]
    compared: tuple[TrialFigures, ...]


def trials_of(metrics: Sequence[str]) -> int:
    """Return the number of trials in each round of a calibration with ``metrics``."""
    return 1 + len(metrics) + CONTESTANTS


def calibrate(
    farm: TrialFarm, metrics: Sequence[str], method: Method, measure: Measure, rounds: int, on_done: Callable[[], None]
) -> Calibration:
    """Compute weights for ``metrics``, and compare the new score with round robin and the score "thesis".

    Raises LbdnsError if no metric outperforms round robin.
    """
    base, *outcomes = farm.run([BASE, *(alone(metric) for metric in metrics)], rounds, on_done)
    weighed = weigh(dict(zip(metrics, outcomes, strict=True)), base, method, measure)
    terms = terms_of(weighed)
    if not terms:
        best = weighed[0]
        raise LbdnsError(
            f"no single metric outperforms round robin: the best metric, {best.name}, has a gain of "
            f"{percent(best.gain)} (+-{100 * best.error:.1f}) in {measure}. Round robin may already be the best policy "
            "for this farm. To find out, try another load, more --rounds, another --by, or --method 1999"
        )
    contestants = [
        CalibrationTrial("'best_score' with the new score", "best_score", terms),
        CalibrationTrial("'best' with the new score", "best", terms),
        CalibrationTrial("'best_score' with the score 'thesis'", "best_score"),
        CalibrationTrial("'best' with the score 'thesis'", "best"),
    ]
    results = [base, *farm.run(contestants, rounds, on_done)]
    compared = tuple(
        TrialFigures(trial.name, *mean_figures(result, base, measure))
        for trial, result in zip([BASE, *contestants], results, strict=True)
    )
    return Calibration(method, measure, rounds, tuple(weighed), terms, compared)


def weigh(
    alone: Mapping[str, Sequence[TrialOutcome]], base: Sequence[TrialOutcome], method: Method, measure: Measure
) -> list[WeighedMetric]:
    """Return the metrics in ``alone`` with their weights, in order of decreasing weight.

    All weights are 0 if no metric outperforms round robin.
    """
    found = []
    for metric, outcomes in alone.items():
        throughput, mean_ms, gain, error = mean_figures(outcomes, base, measure)
        limit = _limit(metric, outcomes)
        deserved = fmean(achieved(o, measure) for o in outcomes) if method == "1999" else max(0.0, gain - error)
        found.append(WeighedMetric(metric, throughput, mean_ms, gain, error, limit, deserved if limit else 0.0))
    return _normalised(found)


def mean_figures(
    outcomes: Sequence[TrialOutcome], base: Sequence[TrialOutcome], measure: Measure
) -> tuple[float, float, float, float]:
    """Return the mean throughput, mean response time, gain and error for ``TrialFigures``."""
    throughput, mean_ms = fmean(o.throughput_per_s for o in outcomes), fmean(o.mean_ms for o in outcomes)
    return throughput, mean_ms, *gained(outcomes, base, measure)


def achieved(outcome: TrialOutcome, measure: Measure) -> float:
    """Return the throughput (responses/s) or the reciprocal of the response time (1/s); higher is better."""
    return outcome.throughput_per_s if measure == "throughput" else 1000.0 / max(outcome.mean_ms, _LEAST)


def gained(outcomes: Sequence[TrialOutcome], base: Sequence[TrialOutcome], measure: Measure) -> tuple[float, float]:
    """Return the mean logarithm of the ratios of ``outcomes`` to ``base``, and the standard error of that mean."""
    # Rounds are compared in pairs, so that shared influences (the same requests, the same hour) cancel out. Logarithms
    # prevent one round in which round robin collapses from outweighing all others
    ratios = [
        math.log(max(achieved(outcome, measure), _LEAST) / max(achieved(other, measure), _LEAST))
        for outcome, other in zip(outcomes, base, strict=True)
    ]
    return fmean(ratios), stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0.0


def percent(gain: float) -> str:
    """Format a gain (a logarithm) as a percentage."""
    return f"{100 * math.expm1(gain):+.1f} %"


def terms_of(weighed: Sequence[WeighedMetric]) -> dict[str, Term]:
    """Return the terms of the new score, one for each metric with a weight above 0.

    If higher values of a metric are better, values above the limit count as the limit. Without the limit, a busy server
    would score higher, receive more requests, become busier, and score higher still.
    """
    return {
        w.name: Term(w.weight, w.limit, better(w.name), cap=better(w.name) == "high") for w in weighed if w.weight > 0
    }


def _limit(metric: str, outcomes: Sequence[TrialOutcome]) -> float:
    """Return a metric's limit: 100 for a percentage, otherwise the highest of its 99th percentiles in the trials,
    rounded up."""
    # Trials with round robin do not count: a farm that collapses in them would stretch the range so far that ordinary
    # differences vanish when scores become whole numbers
    highest = max(outcome.ranges.get(metric, 0.0) for outcome in outcomes)
    if highest <= 0:
        return 0.0
    if score_metrics()[metric].unit == "%":
        return 100.0  # by definition; a server that returns from an outage reaches this value
    step = 10.0 ** (math.floor(math.log10(highest)) - 1)
    return float(f"{math.ceil(highest / step - 1e-9) * step:.6g}")


def _normalised(found: Sequence[WeighedMetric]) -> list[WeighedMetric]:
    """Scale the weights to a total of ``TOTAL``, and round them to hundredths by the largest remainder method."""
    total = sum(w.weight for w in found)
    if total <= 0:
        return sorted(found, key=lambda w: (-w.gain, w.name))
    shares = [w.weight / total * TOTAL / _UNIT for w in found]
    units = [math.floor(share) for share in shares]
    missing = round(TOTAL / _UNIT) - sum(units)
    for at in sorted(range(len(found)), key=lambda i: units[i] - shares[i])[:missing]:
        units[at] += 1
    weighed = [replace(w, weight=round(unit * _UNIT, 2)) for w, unit in zip(found, units, strict=True)]
    return sorted(weighed, key=lambda w: (-w.weight, -w.gain, w.name))
