"""Robust estimates over a pool's members: among three or more members, no single member determines the result.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest, nsmallest

from lbdns.policies.steps import SMALL, Steps, finish


def two_largest(values: Sequence[float]) -> list[float]:
    """Return the largest value and the second largest one, or fewer if there are not two."""
    return nlargest(2, values) if len(values) > SMALL else sorted(values, reverse=True)[:2]


def limited_weights(weights: Sequence[float]) -> list[float]:
    """Return ``weights`` with the largest weights capped, so that no weight exceeds a third of the sum.

    The cap is the highest value with this effect. If fewer than three members have a weight above 0, no such cap
    exists, and the weights are returned unchanged.
    """
    first, second = two_largest((*weights, 0.0, 0.0))
    rest = sum(weights) - first
    limit = rest / 2 if second <= rest / 2 else rest - second
    return [limit if limit < weight else weight for weight in weights] if limit > 0 else list(weights)


def robust_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the winsorised mean of the values with a weight above 0.

    The weights are limited too, so a member with an extreme value cannot move the result beyond the other members'
    values. If there are fewer than three values, the result is their weighted mean. At least one weight must be above
    0.
    """
    return finish(robust_mean_steps(values, weights))


def robust_mean_steps(values: Sequence[float], weights: Sequence[float]) -> Steps[float]:
    """Return the same mean as ``robust_mean``, in steps."""
    known = [value for value, weight in zip(values, weights, strict=True) if weight > 0]
    yield
    limited = limited_weights([weight for weight in weights if weight > 0])
    yield
    most = max(limited)  # the weights may be too small to be multiplied
    shares = [weight / most for weight in limited]
    yield
    inner = winsorised(known)
    yield
    return sum([value * share for value, share in zip(inner, shares, strict=True)]) / sum(shares)


def winsorised(values: Sequence[float]) -> list[float]:
    """Return ``values``; if there are at least three, the highest and lowest are replaced by their neighbours."""
    if len(values) < 3:
        return list(values)
    if len(values) > SMALL:
        low, high = nsmallest(2, values)[1], nlargest(2, values)[1]
    else:
        ordered = sorted(values)
        low, high = ordered[1], ordered[-2]
    return [low if value < low else high if high < value else value for value in values]
