"""How far ratios scatter by chance, told from repetitions; and what the extreme of many of them then comes to. Pure.

On a machine whose pace varies by a tenth the least of 27 measured ratios is well below every true one. Repetitions tell
how far one ratio scatters. From that follows what the least would be if all points had one and the same true ratio, the
mean of those measured: what was found there says nothing against any single point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random
from statistics import fmean
from typing import Final, NamedTuple

#: One point's ratios, one a repetition
Ratios = Sequence[float]

STUDIES: Final = 1000  # made up, of which 95 % count: beyond each end are then 25 of them
_PART: Final = 0.95
_SEED: Final = 1  # the same figures make the same report
#: Fewer ratios beyond one a point than this, and how far they scatter is itself hardly known
ENOUGH: Final = 8


class Range(NamedTuple):
    """Where a figure is in 95 of 100 studies."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}"


def deviation(points: Iterable[Ratios]) -> float | None:
    """Of one measured ratio from the true one of its point, as a part of it: a standard deviation, pooled.

    None if there are too few repetitions.
    """
    residuals = _residuals(points)
    return fmean(residual * residual for residual in residuals) ** 0.5 if residuals else None


def error(ratios: Ratios, one: float) -> float:
    """Standard error of the mean of one point's ratios, one at least. ``one`` is the ``deviation``."""
    return one * fmean(ratios) / math.sqrt(len(ratios))


def error_of_mean(points: Iterable[Ratios]) -> float | None:
    """Standard error of the mean over all points of their means, that comes of chance at each."""
    found = [ratios for ratios in points if ratios]
    one = deviation(found)
    if one is None:
        return None
    return math.hypot(*(error(ratios, one) for ratios in found)) / len(found)


def extreme(points: Iterable[Ratios], of: Callable[[list[float]], float]) -> Range | None:
    """Of the points' means, if all points had the same true ratio. ``of`` is min or max.

    Studies are made up: each ratio is the mean of all times the residual of one that was measured, drawn by chance.
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
    return Range(made_up[beyond], made_up[-1 - beyond])


def _residuals(points: Iterable[Ratios]) -> list[float]:
    """By how much each ratio is above its point's mean, as a part of that; [] if they are too few.

    The mean of ``n`` is drawn to each of them; so they are made wider by the root of ``n / (n - 1)``.
    """
    residuals = []
    beyond = 0
    for ratios in points:
        count, mean = len(ratios), fmean(ratios) if ratios else 0.0
        if count > 1 and mean > 0.0:
            wider = (count / (count - 1)) ** 0.5
            residuals += [wider * (ratio / mean - 1.0) for ratio in ratios]
            beyond += count - 1
    return residuals if beyond >= ENOUGH else []
