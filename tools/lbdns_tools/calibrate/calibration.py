"""The calibration itself: each metric alone, weights from what that achieves, and the new score against the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lbdns.config import Term
from lbdns.errors import LbdnsError
from lbdns_tools.calibrate.trial import BASE, Farm, Outcome, Trial, alone
from lbdns_tools.calibrate.weighing import Measure, Method, Weighed, gained, percent, terms_of, weigh


@dataclass(frozen=True, slots=True)
class Compared:
    """One way of choosing on the same farm, against round robin."""

    name: str
    throughput_per_s: float
    mean_ms: float
    gain: float
    error: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found. ``terms`` are those of the new score."""

    method: Method
    measure: Measure
    rounds: int
    weighed: tuple[Weighed, ...]
    terms: Mapping[str, Term]
    compared: tuple[Compared, ...]


#: What the new score is compared with, and itself, by the two policies that go by a score
CONTESTANTS: Final = 4


def trials_of(metrics: Sequence[str]) -> int:
    """How many trials a calibration of these metrics takes, in each round."""
    return 1 + len(metrics) + CONTESTANTS


def calibrate(
    farm: Farm, metrics: Sequence[str], method: Method, measure: Measure, rounds: int, on_done: Callable[[], None]
) -> Calibration:
    """Raises LbdnsError when no metric does better than round robin, or the farm can't be tried."""
    base, *outcomes = farm.run([BASE, *(alone(metric) for metric in metrics)], rounds, on_done)
    weighed = weigh(dict(zip(metrics, outcomes, strict=True)), base, method, measure)
    terms = terms_of(weighed)
    if not terms:
        best = weighed[0]
        raise LbdnsError(
            f"no metric alone does better than round robin: {best.metric}, the best of them, gains "
            f"{percent(best.gain)} (+-{100 * best.error:.1f}) of {measure}. Either no score is needed here, since "
            "taking turns does as well, or try another load, more --rounds, --by the other measure, or --method 1999"
        )
    contestants = [
        Trial("best_score by the new score", "best_score", terms),
        Trial("best by the new score", "best", terms),
        Trial('best_score by "thesis"', "best_score"),
        Trial('best by "thesis"', "best"),
    ]
    results = farm.run(contestants, rounds, on_done)
    compared = [_compared(BASE.name, base, base, measure)]
    compared += [
        _compared(trial.name, result, base, measure) for trial, result in zip(contestants, results, strict=True)
    ]
    return Calibration(method, measure, rounds, tuple(weighed), terms, tuple(compared))


def _compared(name: str, outcomes: Sequence[Outcome], base: Sequence[Outcome], measure: Measure) -> Compared:
    gain, error = gained(outcomes, base, measure)
    count = len(outcomes)
    return Compared(
        name,
        sum(o.throughput_per_s for o in outcomes) / count,
        sum(o.mean_ms for o in outcomes) / count,
        gain,
        error,
    )
