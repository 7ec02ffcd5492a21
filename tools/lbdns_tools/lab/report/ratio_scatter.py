"""Estimates the standard errors of ratios, and the range in which the lowest or highest ratio may lie by chance alone.

If the speed of a machine varies by 10 %, the lowest of 27 measured ratios is well below every true ratio. Repetitions
show how much individual ratios vary. The module assumes that all true ratios are equal, and uses the variation between
repetitions to calculate the range in which the lowest ratio would then lie by chance. If the lowest measured ratio lies
within this range, the measurements do not show that any true ratio differs from the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

#: The ratios of one point, one for each repetition
Ratios = Sequence[float]

STUDIES: Final = 1000  # simulated studies; 25 of them lie beyond each end of the 95 % range
_PART: Final = 0.95
_SEED: Final = 1  # fixed, so that the same results give the same report
#: The minimum degrees of freedom for a reliable estimate of the variation
ENOUGH: Final = 8


class ChanceRange(NamedTuple):
    """A 95 % range: in 95 of 100 studies, the value would lie between ``low`` and ``high``."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}"


def deviation(points: Iterable[Ratios]) -> float | None:
    """Return the pooled relative standard deviation of the points' ratios, or None if there are too few ratios."""
    residuals = _residuals(points)
    return fmean(residual * residual for residual in residuals) ** 0.5 if residuals else None


def error(ratios: Ratios, one: float) -> float:
    """Return the standard error of the mean of a point's ratios. ``ratios`` must not be empty.

    ``one`` is the relative standard deviation of a single ratio, as returned by ``deviation``.
    """
    return one * fmean(ratios) / math.sqrt(len(ratios))


def error_of_mean(points: Iterable[Ratios]) -> float | None:
    """Return the standard error of the mean over all points, or None if there are too few repetitions."""
    found = [ratios for ratios in points if ratios]
    one = deviation(found)
    if one is None:
        return None
    return math.hypot(*(error(ratios, one) for ratios in found)) / len(found)


def extreme(points: Iterable[Ratios], of: Callable[[list[float]], float]) -> ChanceRange | None:
    """Return the 95 % range in which the lowest or highest of the points' means would lie if all true ratios were
    equal.

    ``of`` is min or max. The range is estimated by bootstrapping: the function simulates many studies. To obtain each
    simulated ratio, it draws one of the measured relative deviations at random and applies this deviation to the
    overall mean. If there are too few repetitions, the result is None.
    """
    found = [ratios for ratios in points if ratios]
    residuals = _residuals(found)
    if not residuals:
        return None
    whole, draw, counts = fmean(fmean(ratios) for ratios in found), Random(_SEED).choices, [len(of) for of in found]
    made_up = sorted(
        of([whole * (1.0 + fmean(draw(residuals, k=count))) for count in counts]) for _ in range(STUDIES)
    )  # fmt: skip
    beyond = round(STUDIES * (1.0 - _PART) / 2)
    return ChanceRange(made_up[beyond], made_up[-1 - beyond])


def _residuals(points: Iterable[Ratios]) -> list[float]:
    """Return the relative deviation of each ratio from its point's mean, or [] if there are too few repetitions."""
    residuals = []
    beyond = 0
    for ratios in points:
        count, mean = len(ratios), fmean(ratios) if ratios else 0.0
        if count > 1 and mean > 0.0:
            # The mean of n ratios is biased towards each of them
            wider = (count / (count - 1)) ** 0.5
            residuals += [wider * (ratio / mean - 1.0) for ratio in ratios]
            beyond += count - 1
    return residuals if beyond >= ENOUGH else []
