"""From what each metric achieved alone to weights and limits. Pure.

    1999   weight = 100 * a / sum of a      a: what the farm achieved when the metric decided alone
    gain   weight = 100 * g / sum of g      g: the mean over the rounds of ln(a / a of round robin), less its standard
                                            error, 0 at least

What is achieved is the throughput, or the reciprocal of the response time. A metric that does as well as taking turns
knows nothing of use: by "1999" it gets nearly as much as the best one, by "gain" nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from lbdns.config import Term
from lbdns.metrics import CATALOGUE
from lbdns_tools.calibrate.trial import Outcome, better

Method = Literal["gain", "1999"]
Measure = Literal["throughput", "response"]

TOTAL: Final = 100.0  # the sum of all weights; in 1999 it was 99.97, by rounding
_UNIT: Final = 0.01  # weights are told in hundredths
_LEAST: Final = 1e-6  # responses/s or ms: below that is nothing


@dataclass(frozen=True, slots=True)
class Weighed:
    """One metric, and the figures behind its weight."""

    metric: str
    throughput_per_s: float
    mean_ms: float
    gain: float  # ln of what is achieved over what round robin achieves: 0.1 is about a tenth more
    error: float  # standard error of that; 0 when there was but one round
    limit: float  # 0 when the metric never moved
    weight: float


def weigh(
    alone: Mapping[str, Sequence[Outcome]], base: Sequence[Outcome], method: Method, measure: Measure
) -> list[Weighed]:
    """The metrics of ``alone``, heaviest first. All weights are 0 when no metric gains anything."""
    found = []
    for metric, outcomes in alone.items():
        gain, error = gained(outcomes, base, measure)
        limit = _limit(metric, outcomes)
        deserved = _mean([achieved(o, measure) for o in outcomes]) if method == "1999" else max(0.0, gain - error)
        found.append(
            Weighed(
                metric=metric,
                throughput_per_s=_mean([o.throughput_per_s for o in outcomes]),
                mean_ms=_mean([o.mean_ms for o in outcomes]),
                gain=gain,
                error=error,
                limit=limit,
                weight=deserved if limit else 0.0,
            )
        )
    return _normalised(found)


def achieved(outcome: Outcome, measure: Measure) -> float:
    """More is better."""
    return outcome.throughput_per_s if measure == "throughput" else 1000.0 / max(outcome.mean_ms, _LEAST)


def gained(outcomes: Sequence[Outcome], base: Sequence[Outcome], measure: Measure) -> tuple[float, float]:
    """By how much ``outcomes`` are ahead of ``base``, as the mean ln of their ratio, and the standard error of that.

    Rounds are compared in pairs: what both saw of the same requests, or of the same hour, cancels out. Logarithms, for
    one round in which the base line collapses must not outweigh all others.
    """
    ratios = [
        math.log(max(achieved(outcome, measure), _LEAST) / max(achieved(other, measure), _LEAST))
        for outcome, other in zip(outcomes, base, strict=True)
    ]
    mean = _mean(ratios)
    if len(ratios) < 2:
        return mean, 0.0
    variance = sum((ratio - mean) ** 2 for ratio in ratios) / (len(ratios) - 1)
    return mean, math.sqrt(variance / len(ratios))


def percent(gain: float) -> str:
    """A gain, which is a logarithm, for a person."""
    return f"{100 * math.expm1(gain):+.1f} %"


def terms_of(weighed: Sequence[Weighed]) -> dict[str, Term]:
    """The terms of the score: those that weigh anything. Higher is better only up to the limit, since a server that is
    given more because it serves more would be given ever more."""
    return {
        w.metric: Term(w.weight, w.limit, better(w.metric), cap=better(w.metric) == "high")
        for w in weighed
        if w.weight > 0
    }


def _limit(metric: str, outcomes: Sequence[Outcome]) -> float:
    """What nearly all values stayed below where this metric decided, rounded up to two digits; 0 for one that never
    moved from 0. Not what they reached under round robin: a farm that collapses under it would stretch the range so
    far that ordinary differences vanish when scores are cut to whole numbers."""
    highest = max(outcome.ranges.get(metric, 0.0) for outcome in outcomes)
    if highest <= 0:
        return 0.0
    if CATALOGUE[metric].unit == "%":
        return 100.0  # known without looking, and a server that is back from an outage has all of it
    step = 10.0 ** (math.floor(math.log10(highest)) - 1)
    return float(f"{math.ceil(highest / step - 1e-9) * step:.6g}")


def _normalised(found: Sequence[Weighed]) -> list[Weighed]:
    """With weights in hundredths that sum to ``TOTAL`` exactly: the largest remainders are rounded up."""
    total = sum(w.weight for w in found)
    if total <= 0:
        return sorted(found, key=lambda w: (-w.gain, w.metric))
    shares = [w.weight / total * TOTAL / _UNIT for w in found]
    units = [math.floor(share) for share in shares]
    missing = round(TOTAL / _UNIT) - sum(units)
    for at in sorted(range(len(found)), key=lambda i: units[i] - shares[i])[:missing]:
        units[at] += 1
    weighed = [_with_weight(w, round(unit * _UNIT, 2)) for w, unit in zip(found, units, strict=True)]
    return sorted(weighed, key=lambda w: (-w.weight, -w.gain, w.metric))


def _with_weight(w: Weighed, weight: float) -> Weighed:
    return Weighed(w.metric, w.throughput_per_s, w.mean_ms, w.gain, w.error, w.limit, weight)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
