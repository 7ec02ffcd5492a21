"""Where a pool should stand: how many requests/s each member should serve so that they take least time in all. Pure.

A member with ``m`` cores, each of which can serve ``a`` requests/s, takes about ``1 / (a * (1 - p ** m))`` seconds for
one at utilisation ``p``: exact for one core and for two, within a few percent for more (M/M/m; the cores share the
work, so what sizes requests have hardly matters). The total is least where one more request/s costs the same
everywhere; that marginal cost has a closed form, so one unknown is left.

So slow cores stay empty while fast ones have room, and large members run fuller than small ones: shares in proportion
to capacity, which come out when load is high, waste time when it is low.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FULL: Final = 0.98  # of all capacity: beyond, shares hardly change any more but the search takes longer
_ACCURACY: Final = 1e-3  # of the goal
_STEPS: Final = 60


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """By member: the requests/s it should serve, and how many it has at work then.

    ``cost`` is how many seconds one more request takes, its own and what others wait longer for it, wherever the rate
    is above 0.
    """

    rates: tuple[float, ...]
    loads: tuple[float, ...]
    cost: float = 0.0


def operating_point(
    capacities: Sequence[float], cores: Sequence[float], rate: float, present: float = math.inf
) -> OperatingPoint:
    """The best split of ``rate`` requests/s over members that can serve ``capacities`` (requests/s, above 0).

    ``cores`` may be fractions, as quotas are: below one whole core they count as one. A rate that is too much for all
    is split as the highest that isn't. The point has no more than ``present`` requests at work in the whole pool:
    clients that wait for a response before they send the next request are never more than they are.
    """
    lines = [(capacity, lanes(m)) for capacity, m in zip(capacities, cores, strict=True)]
    wanted, present = min(rate, FULL * sum(capacities)), max(1.0, present)
    if wanted <= 0:
        return OperatingPoint((0.0,) * len(lines), (0.0,) * len(lines))
    # s: the marginal cost of the first request, and a hair less: of many slow cores a rounding error more is much
    low = min(m / capacity for capacity, m in lines) * (1 - 1e-9)
    high = 4 * low
    below, above = _split(lines, low), _split(lines, high)
    while _missing(above, wanted, present) > 0:
        low, high = high, 4 * high
        below, above = above, _split(lines, high)
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        tried = _split(lines, middle)
        missing = _missing(tried, wanted, present)
        if missing > 0:
            low, below = middle, tried
        else:
            high, above = middle, tried
        if abs(missing) <= _ACCURACY:
            break
    # A member with many slow cores goes from nothing to much within one rounding error: what is wanted lies between
    lacks, exceeds = _missing(below, wanted, present), -_missing(above, wanted, present)
    part = lacks / (lacks + exceeds) if lacks > 0 else 0.0
    rates = [one + part * (other - one) for one, other in zip(below.rates, above.rates, strict=True)]
    loads = [one + part * (other - one) for one, other in zip(below.loads, above.loads, strict=True)]
    scale = rate / sum(rates) if sum(rates) > 0 else 0.0
    return OperatingPoint(tuple(rate * scale for rate in rates), tuple(loads), high)


def lanes(cores: float) -> float:
    """How many requests a member serves side by side without one slowing another down."""
    return max(1.0, round(cores))


def _missing(point: OperatingPoint, wanted: float, present: float) -> float:
    """What part of the goal, rate or load, is not reached; below 0 if it is passed."""
    return min(1 - sum(point.rates) / wanted, 1 - sum(point.loads) / present)


def _split(lines: Sequence[tuple[float, float]], cost: float) -> OperatingPoint:
    """What each member serves when one more request/s costs ``cost`` seconds everywhere.

    With x = p ** m: cost * speed = (1 + (m - 1) * x) / (1 - x) ** 2, a square equation.
    """
    rates, loads = [], []
    for capacity, m in lines:
        times = cost * capacity / m
        if times <= 1.0:
            rates.append(0.0)
            loads.append(0.0)
            continue
        half = times + (m - 1) / 2
        x = (times - 1) / (half + math.sqrt(half * half - times * (times - 1)))
        utilisation = math.pow(x, 1 / m)
        rates.append(capacity * utilisation)
        loads.append(m * utilisation / (1 - x))
    return OperatingPoint(tuple(rates), tuple(loads), cost)
