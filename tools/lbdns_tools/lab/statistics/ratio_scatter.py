"""Estimates from repetitions how measured ratios vary: standard errors, and the chance range of an extreme.

On a machine whose speed varies by 10%, the lowest of 27 measured ratios lies well below every true ratio. Repetitions
show how much individual ratios vary. This variation determines the range in which the lowest ratio would lie if the
true ratio of every point were the mean. An extreme within that range is no evidence against any point.
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
#: Degrees of freedom below which the scatter itself is too uncertain
ENOUGH: Final = 8


class ChanceRange(NamedTuple):
    """The range within which a figure lies in 95 of 100 studies."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}"


def deviation(points: Iterable[Ratios]) -> float | None:
    """Return the pooled standard deviation of ratios relative to their point's mean; None with too few repetitions."""
    residuals = _residuals(points)
    return fmean(residual * residual for residual in residuals) ** 0.5 if residuals else None


def error(ratios: Ratios, one: float) -> float:
    """Return the standard error of the mean of a point's ratios. There must be at least one ratio.

    ``one`` is the result of ``deviation``.
    """
    return one * fmean(ratios) / math.sqrt(len(ratios))


def error_of_mean(points: Iterable[Ratios]) -> float | None:
    """Return the standard error of the mean over all points' means; None if there are too few repetitions."""
    found = [ratios for ratios in points if ratios]
    one = deviation(found)
    if one is None:
        return None
    return math.hypot(*(error(ratios, one) for ratios in found)) / len(found)


def extreme(points: Iterable[Ratios], of: Callable[[list[float]], float]) -> ChanceRange | None:
    """Return the 95 % range in which the extreme of the points' means would lie if all points had the same true ratio.

    ``of`` selects the extreme and is min or max. The range comes from simulated studies (bootstrap), in which each
    ratio is the overall mean plus a residual drawn at random from the measured residuals. Returns None if there are too
    few repetitions.
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
    """Return each ratio's relative deviation from its point's mean; [] if there are too few repetitions."""
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
