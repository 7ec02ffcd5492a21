"""Percentiles of a list of values, calculated by the nearest-rank method."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def nearest_rank(count: int, percent: float) -> int:
    """Return the rank, counted from 1, of the given percentile among ``count`` sorted values. Raises ValueError."""
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile must be between 0 and 100, not {percent:g}")
    # 1e-9: 95 % of 20 values is the 19th, although 0.95 * 20 may be slightly above 19
    return max(1, ceil(percent / 100 * count - 1e-9))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the given percentile of ``values`` by nearest rank, or 0 if there are no values.

    Raises ValueError unless ``percent`` is between 0 and 100.
    """
    rank = nearest_rank(len(values), percent)
    return sorted(values)[rank - 1] if values else 0.0
