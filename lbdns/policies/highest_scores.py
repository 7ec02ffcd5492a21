"""The members that ``best`` selects when traffic is light: the fastest of those with nearly the highest score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lbdns.policies.plan import PoolView

SAME_SCORE: Final = 3  # points within which a difference between scores means nothing
SAME_SPEED: Final = 1.1  # times as fast: a smaller difference between cores means nothing


def nearly_highest(view: PoolView) -> list[int]:
    """Return the indexes of the candidates whose scores are at most ``SAME_SCORE`` points below the highest one."""
    candidates, scores = view.candidates, view.columns.scores
    highest = max([scores[i] for i in candidates], default=0)
    return [i for i in candidates if scores[i] >= highest - SAME_SCORE]


def fastest(view: PoolView, members: Sequence[int]) -> list[int]:
    """Return the ``members`` (indexes) with the fastest cores, which serve a single request in the least time."""
    capacities, cores = view.columns.capacities, view.columns.cores
    speeds = [capacities[i] / cores[i] for i in members]
    least = max(speeds, default=0.0) / SAME_SPEED
    return [i for i, speed in zip(members, speeds, strict=True) if speed >= least]


def why_fastest(view: PoolView) -> str:
    """Return the reason, as text for users, why ``best`` selects these members when traffic is light."""
    near = nearly_highest(view)
    chosen = fastest(view, near)
    if len(near) == 1:
        return "highest score"
    if len(chosen) == 1:
        return f"fastest of the {len(near)} members within {SAME_SCORE} points of the highest score"
    return (
        f"one of {len(chosen)} members that take turns, because no other member has a much higher score or "
        "much faster cores"
    )
