"""The policies that rotate: ``round_robin`` over the usable members, ``best_score`` over those with the highest score.

``best_score`` is the literal rule of the 1999 thesis. It herds under heavy traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lbdns.policies.plan import HIGHEST_SCORE, Plan, PolicySpec, PoolView, Selections

if TYPE_CHECKING:
    from random import Random


def rotation(indexes: Sequence[int], previous: Selections | None) -> Plan:
    """Return a strict rotation over ``indexes`` (ascending) that starts after the member selected last."""
    last = previous.last if previous else None
    if last is None:
        return Plan(tuple(indexes))
    return Plan((*(i for i in indexes if i > last), *(i for i in indexes if i <= last)))


def round_robin(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan of policy ``round_robin``; it continues where the previous plan stopped."""
    return rotation(view.candidates, previous)


def best_score(view: PoolView, previous: Selections | None, rng: Random) -> Plan:
    """Return a plan of policy ``best_score``; members with the same score take turns."""
    candidates = view.candidates
    best = max((view.members[i].score for i in candidates), default=0)
    return rotation([i for i in candidates if view.members[i].score == best], previous)


ROUND_ROBIN: Final = PolicySpec("round_robin", round_robin, why="strict rotation", strict_rotation=True)
BEST_SCORE: Final = PolicySpec("best_score", best_score, why=HIGHEST_SCORE, uses_score=True)
